-- Compacts the versions in steps, each a transaction of its own: after millions of single-row inserts without a list, one
-- statement for all rows would exceed the statement timeout every time, and the table would grow until no list can be read.
-- A step takes the next 20,000 rows after an id and replaces those of the same block by one row with their exclusive or, so
-- every version stays as it is. It returns the last id that it has seen, and NULL after the last step.
CREATE FUNCTION "compact_order_list_changes"("after_id" bigint) RETURNS bigint LANGUAGE sql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
    WITH step AS MATERIALIZED (
        SELECT "id", "block" FROM public."order_list_changes" WHERE "id" > after_id ORDER BY "id" LIMIT 20000
        FOR UPDATE SKIP LOCKED
    ), removed AS (
        DELETE FROM public."order_list_changes" AS changes USING step
        WHERE changes."id" = step."id" AND step."block" IN (SELECT "block" FROM step GROUP BY "block" HAVING count(*) > 1)
        RETURNING changes."block", changes."token"
    ), compacted AS (
        INSERT INTO public."order_list_changes" ("block", "token")
            SELECT "block", bit_xor("token") FROM removed GROUP BY "block"
    )
    SELECT max("id") FROM step;
$$;
