-- An apply worker of logical replication fires no statement-level triggers, so on a subscriber neither inserted nor deleted
-- orders changed the version of the list. Row-level triggers note them there. They fire only with session_replication_role =
-- replica, because elsewhere the statement-level triggers cost less. Where both fire, the block gets two tokens instead of one.

-- Runs for an updated row, and for one that was inserted or deleted by replication. It sets no search path, which would cost
-- more than the rest: names are qualified instead.
CREATE OR REPLACE FUNCTION "note_order_list_update"() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    changed_block pg_catalog.int8 := coalesce(NEW."id", OLD."id") OPERATOR(pg_catalog.>>) 14;
BEGIN
    IF pg_catalog.current_setting('petstore.noted_block_' OPERATOR(pg_catalog.||) (changed_block OPERATOR(pg_catalog.&) 1023), true)
        IS DISTINCT FROM changed_block::pg_catalog.text THEN
        PERFORM public."note_order_list_block"(changed_block);
    END IF;
    IF OLD."id" OPERATOR(pg_catalog.<>) NEW."id" THEN
        PERFORM public."note_order_list_block"(OLD."id" OPERATOR(pg_catalog.>>) 14);
    END IF;
    RETURN NULL;
END;
$$;

-- PostgreSQL evaluates WHEN as it changes the row, without a call of a function of ours, and calls the function when the
-- statement ends. The condition saves the block in a setting of the transaction, so that the next row of the same block calls
-- no function. A savepoint takes back the setting together with the rows. CASE guarantees the order of evaluation: a block is
-- saved only if the function is called for it.
CREATE OR REPLACE TRIGGER "orders_note_update" AFTER UPDATE ON "orders" FOR EACH ROW WHEN (CASE
        WHEN (OLD."id", OLD."pet_id", OLD."quantity", OLD."ship_date", OLD."complete")
                IS DISTINCT FROM (NEW."id", NEW."pet_id", NEW."quantity", NEW."ship_date", NEW."complete")
            AND (OLD."id" <> NEW."id" OR current_setting('petstore.last_block', true) IS DISTINCT FROM (NEW."id" >> 14)::text)
        THEN set_config('petstore.last_block', (NEW."id" >> 14)::text, true) IS NOT NULL
    END) EXECUTE FUNCTION "note_order_list_update"();
CREATE OR REPLACE TRIGGER "orders_note_replicated_insert" AFTER INSERT ON "orders"
    FOR EACH ROW EXECUTE FUNCTION "note_order_list_update"();
CREATE OR REPLACE TRIGGER "orders_note_replicated_delete" AFTER DELETE ON "orders"
    FOR EACH ROW EXECUTE FUNCTION "note_order_list_update"();

ALTER TABLE "orders" ENABLE ALWAYS TRIGGER "orders_note_update";
ALTER TABLE "orders" ENABLE REPLICA TRIGGER "orders_note_replicated_insert";
ALTER TABLE "orders" ENABLE REPLICA TRIGGER "orders_note_replicated_delete";

-- On a subscriber any block may have changed unnoticed, and new ones have no version yet: every block gets a new one. The
-- triggers have locked the table against writers until this transaction ends, so each block is looked up in the index instead
-- of scanning the table.
WITH RECURSIVE "blocks" ("block") AS (
    (SELECT "id" >> 14 FROM "orders" ORDER BY "id" LIMIT 1)
    UNION ALL
    SELECT (SELECT "id" >> 14 FROM "orders" WHERE "id" > ("block" << 14 | 16383) ORDER BY "id" LIMIT 1)
    FROM "blocks" WHERE "block" IS NOT NULL
)
INSERT INTO "order_list_changes" ("block", "token")
    SELECT "block", "order_list_token"()
    FROM (SELECT "block" FROM "blocks" WHERE "block" IS NOT NULL UNION SELECT "block" FROM "order_list_changes") AS known;
