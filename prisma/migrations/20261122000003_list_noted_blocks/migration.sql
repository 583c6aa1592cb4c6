-- A transaction remembers up to 1,024 noted blocks instead of the last one, so that a bulk update in random order appends about
-- one row per block instead of one per order. A block belongs to the setting with its lowest ten bits; PostgreSQL takes the
-- settings back with a savepoint, as it does the appended rows.
CREATE OR REPLACE FUNCTION "note_order_list_block"("changed_block" bigint) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO public."order_list_changes" ("block", "token") VALUES (changed_block, public."order_list_token"());
    PERFORM set_config('petstore.noted_block_' || (changed_block & 1023), changed_block::text, true);
END;
$$;

-- Runs for each updated row, so it sets no search path: names are qualified instead.
CREATE OR REPLACE FUNCTION "note_order_list_update"() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF pg_catalog.current_setting('petstore.noted_block_' OPERATOR(pg_catalog.||) ((NEW."id" OPERATOR(pg_catalog.>>) 14) OPERATOR(pg_catalog.&) 1023), true)
        IS DISTINCT FROM (NEW."id" OPERATOR(pg_catalog.>>) 14)::pg_catalog.text THEN
        PERFORM public."note_order_list_block"(NEW."id" OPERATOR(pg_catalog.>>) 14);
    END IF;
    IF OLD."id" OPERATOR(pg_catalog.<>) NEW."id" THEN
        PERFORM public."note_order_list_block"(OLD."id" OPERATOR(pg_catalog.>>) 14);
    END IF;
    RETURN NULL;
END;
$$;

-- The functions change versions with the rights of their owner, so only the triggers and the service may call them. A trigger
-- fires without this right.
REVOKE EXECUTE ON FUNCTION "order_list_token"(), "note_order_list_rows"(), "note_order_list_block"(bigint),
    "note_order_list_update"(), "compact_order_list_changes"(), "compact_order_list_changes"(bigint) FROM PUBLIC;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'petstore_service') THEN
        GRANT EXECUTE ON FUNCTION "compact_order_list_changes"(bigint) TO "petstore_service";
    END IF;
END;
$$;
