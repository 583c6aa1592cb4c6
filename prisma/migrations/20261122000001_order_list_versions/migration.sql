-- What makes the list of orders cheap: the versions of its blocks. A block is a range of 16,384 ids ("id" >> 14). Whatever changes
-- what the list shows of a block appends a row with a random token, so the sum of the tokens of a range of ids is the version of
-- its orders. Appending waits for no other writer, and a token becomes visible exactly when the change does. A cancel changes
-- nothing that the list shows, so it appends nothing.
--
-- These rows decide what may be served from memory, and never what is in the list. The service checks that the triggers and
-- functions below are as this migration made them, and reads the whole table when they are not (docs/decisions/0009).
--
-- There is no key that restored rows could collide with. With the replica identity, rows can be deleted while a publication has the table.
CREATE TABLE "order_list_changes" (
    -- Null: the row concerns every block.
    "block" BIGINT,
    "token" BIGINT NOT NULL
);
ALTER TABLE "order_list_changes" REPLICA IDENTITY FULL;

-- Appends a row for the block of a changed order, and for the one that it was in before. A transaction remembers up to 1,024
-- blocks, each in the setting with the lowest ten bits of its number, so a bulk update appends about one row per block, in
-- whatever order it visits the orders. PostgreSQL takes the settings back with a savepoint, as it does the appended rows. The
-- number of the transaction is part of each value: a value that was left over from another one means nothing. Names are qualified,
-- because a search path would cost more than the rest.
--
-- A change whose token is not kept, because of a trigger that somebody added to "order_list_changes", fails: once the trigger is gone,
-- nothing would show that the list has changed.
CREATE FUNCTION "note_order_list_change"() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    changed pg_catalog.int8;
    appended pg_catalog.int8;
    kept pg_catalog.int8;
BEGIN
    FOREACH changed IN ARRAY ARRAY[OLD."id" OPERATOR(pg_catalog.>>) 14, NEW."id" OPERATOR(pg_catalog.>>) 14] LOOP
        IF coalesce(
            pg_catalog.current_setting('petstore.block_' OPERATOR(pg_catalog.||) (changed OPERATOR(pg_catalog.&) 1023), true), ''
        ) OPERATOR(pg_catalog.<>) (changed OPERATOR(pg_catalog.#) pg_catalog.txid_current())::pg_catalog.text THEN
            appended := pg_catalog.hashtextextended(pg_catalog.gen_random_uuid()::pg_catalog.text, 0);
            INSERT INTO public."order_list_changes" VALUES (changed, appended) RETURNING "token" INTO kept;
            IF kept IS NULL OR kept OPERATOR(pg_catalog.<>) appended THEN
                RAISE EXCEPTION 'A trigger on order_list_changes does not keep the token of a changed order.';
            END IF;
            PERFORM pg_catalog.set_config('petstore.block_' OPERATOR(pg_catalog.||) (changed OPERATOR(pg_catalog.&) 1023),
                (changed OPERATOR(pg_catalog.#) pg_catalog.txid_current())::pg_catalog.text, true);
        END IF;
    END LOOP;
    RETURN NULL;
END;
$$;

-- PostgreSQL evaluates WHEN as it changes the row, without calling a function of ours, and calls the function when the statement
-- ends. The condition saves the block in a setting of the transaction, so that the next row of the same block calls no function.
-- CASE guarantees the order of evaluation: a block is saved only if the function is called for it. The triggers are row-level,
-- because an apply worker of logical replication fires no others.
CREATE TRIGGER "orders_note_insert" AFTER INSERT ON "orders" FOR EACH ROW WHEN (CASE
        WHEN current_setting('petstore.block', true) IS DISTINCT FROM ((NEW."id" >> 14) # txid_current())::text
        THEN set_config('petstore.block', ((NEW."id" >> 14) # txid_current())::text, true) IS NOT NULL
    END) EXECUTE FUNCTION "note_order_list_change"();
CREATE TRIGGER "orders_note_delete" AFTER DELETE ON "orders" FOR EACH ROW WHEN (CASE
        WHEN current_setting('petstore.block', true) IS DISTINCT FROM ((OLD."id" >> 14) # txid_current())::text
        THEN set_config('petstore.block', ((OLD."id" >> 14) # txid_current())::text, true) IS NOT NULL
    END) EXECUTE FUNCTION "note_order_list_change"();
CREATE TRIGGER "orders_note_update" AFTER UPDATE ON "orders" FOR EACH ROW WHEN (CASE
        WHEN (OLD."id" <> NEW."id" OR OLD."pet_id" IS DISTINCT FROM NEW."pet_id" OR OLD."quantity" IS DISTINCT FROM NEW."quantity"
                OR OLD."ship_date" IS DISTINCT FROM NEW."ship_date" OR OLD."complete" IS DISTINCT FROM NEW."complete")
            AND (OLD."id" <> NEW."id"
                OR current_setting('petstore.block', true) IS DISTINCT FROM ((NEW."id" >> 14) # txid_current())::text)
        THEN set_config('petstore.block', ((NEW."id" >> 14) # txid_current())::text, true) IS NOT NULL
    END) EXECUTE FUNCTION "note_order_list_change"();

-- Gives everything a new version when tokens are deleted or changed by hand: without them, an earlier version could come back.
CREATE FUNCTION "renew_changed_order_list_versions"() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    appended bigint := hashtextextended(gen_random_uuid()::text, 0);
    kept bigint;
BEGIN
    INSERT INTO public."order_list_changes" VALUES (NULL, appended) RETURNING "token" INTO kept;
    IF kept IS DISTINCT FROM appended THEN
        RAISE EXCEPTION 'A trigger on order_list_changes does not keep the token of a renewal.';
    END IF;
    RETURN NULL;
END;
$$;
CREATE TRIGGER "order_list_changes_renew" AFTER UPDATE OR DELETE ON "order_list_changes" FOR EACH STATEMENT
    WHEN (current_setting('petstore.compacting', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION "renew_changed_order_list_versions"();

-- The same for use after a restore to a point in time, which may give out earlier versions again: fires the trigger.
CREATE FUNCTION "renew_order_list_versions"() RETURNS void LANGUAGE sql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM public."order_list_changes" WHERE false;
$$;

-- Also for writers that switch triggers off with session_replication_role, such as logical replication.
ALTER TABLE "orders" ENABLE ALWAYS TRIGGER "orders_note_insert";
ALTER TABLE "orders" ENABLE ALWAYS TRIGGER "orders_note_delete";
ALTER TABLE "orders" ENABLE ALWAYS TRIGGER "orders_note_update";
ALTER TABLE "order_list_changes" ENABLE ALWAYS TRIGGER "order_list_changes_renew";

-- Replaces the rows of a block by one with the sum of their tokens, modulo 2^64: every version stays as it is. In steps of 100
-- pages (about 18,000 rows), each a transaction of its own, because the statement timeout may be too short for all of them. Rows
-- that another compaction holds are left to it. Returns the page to go on from, null after the last one.
CREATE FUNCTION "compact_order_list_changes"("from_page" bigint) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    difference numeric;
BEGIN
    IF from_page * current_setting('block_size')::bigint >= pg_relation_size('public.order_list_changes') THEN
        RETURN NULL;
    END IF;
    PERFORM set_config('petstore.compacting', 'on', true);
    WITH step AS MATERIALIZED (
        SELECT ctid AS place, "block" FROM public."order_list_changes"
        WHERE ctid >= format('(%s,0)', from_page)::tid AND ctid < format('(%s,0)', from_page + 100)::tid
        FOR UPDATE SKIP LOCKED
    ), repeated AS MATERIALIZED (
        SELECT place FROM (SELECT place, count(*) OVER (PARTITION BY "block") AS rows FROM step) AS counted WHERE rows > 1
    ), removed AS (
        DELETE FROM public."order_list_changes" USING repeated WHERE ctid = place RETURNING "block", "token"
    ), merged AS (
        INSERT INTO public."order_list_changes"
            SELECT "block", mod(mod(sum("token"), 18446744073709551616) + 27670116110564327424, 18446744073709551616) - 9223372036854775808
            FROM removed GROUP BY "block" RETURNING "token"
    )
    SELECT mod(sum("token"), 18446744073709551616) INTO difference
        FROM (SELECT "token" FROM removed UNION ALL SELECT - "token"::numeric FROM merged) AS both_sides;
    IF difference <> 0 THEN
        RAISE EXCEPTION 'A trigger on order_list_changes does not keep merged tokens.';
    END IF;
    PERFORM set_config('petstore.compacting', '', true);
    RETURN from_page + 100;
END;
$$;

-- Appends a row for each block that holds orders, of those from one id to another, for blocks that changed while the triggers were
-- off. The token is 0, which changes no version: the row only tells that the block exists. For up to 4,096 blocks.
CREATE FUNCTION "note_order_list_blocks"("first_id" bigint, "last_id" bigint) RETURNS void LANGUAGE sql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE found ("block") AS (
        (SELECT "id" >> 14 FROM ONLY public."orders" WHERE "id" BETWEEN first_id AND last_id ORDER BY "id" LIMIT 1)
        UNION ALL
        SELECT (
            SELECT "id" >> 14 FROM ONLY public."orders" WHERE "id" > ("block" << 14 | 16383) AND "id" <= last_id ORDER BY "id" LIMIT 1
        ) FROM found WHERE "block" IS NOT NULL
    )
    INSERT INTO public."order_list_changes" SELECT "block", 0 FROM (SELECT "block" FROM found LIMIT 4096) AS first WHERE "block" IS NOT NULL;
$$;

-- The functions change versions with the rights of their owner, so only the triggers and the service may call them. A trigger
-- fires without this right.
REVOKE EXECUTE ON FUNCTION "note_order_list_change"(), "renew_order_list_versions"(), "renew_changed_order_list_versions"(),
    "compact_order_list_changes"(bigint), "note_order_list_blocks"(bigint, bigint) FROM PUBLIC;

SELECT "renew_order_list_versions"();
