-- Replaces "compact_order_list_changes" and "note_order_list_blocks", which earlier releases call until they are no longer in use.
--
-- Merges rows into earlier ones of the same block, by adding tokens modulo 2^64: every version stays as it is. When a step finds more
-- than 16,384 blocks, as with ids that are far apart, it merges all of its rows into one without a block: the sum of all tokens stays,
-- and each piece of the list is compared anew once. A token never moves to another block, whose version could then be one that it had
-- before.
--
-- A step looks through the given number of pages and the first ones of the table, where what is merged stays, so that VACUUM gives the
-- other pages back. It changes nothing unless that makes the table smaller. One process at a time; a row that somebody else changes
-- meanwhile fails the step. Without a row that concerns every block the tokens are not those of the list, and it makes none. Returns the
-- page to go on from, null after the last one or when there is nothing to do here.
CREATE FUNCTION "merge_order_list_changes"("from_page" bigint, "pages" bigint) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    first_pages CONSTANT tid := '(100,0)';
    step_start CONSTANT tid := format('(%s,0)', from_page)::tid;
    step_end CONSTANT tid := format('(%s,0)', from_page + pages)::tid;
    found bigint;
    blocks bigint;
    earliest tid;
    difference numeric;
BEGIN
    IF current_setting('transaction_read_only') = 'on'
            OR from_page * current_setting('block_size')::bigint >= pg_relation_size('public.order_list_changes')
            OR NOT pg_try_advisory_xact_lock(482871112565) THEN
        RETURN NULL;
    END IF;
    -- Usually among the first.
    SELECT min(ctid) INTO earliest FROM public."order_list_changes" WHERE "block" IS NULL AND ctid < first_pages;
    IF earliest IS NULL THEN
        SELECT min(ctid) INTO earliest FROM public."order_list_changes" WHERE "block" IS NULL;
    END IF;
    IF earliest IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT count(*), count(DISTINCT "block") INTO found, blocks FROM (
        SELECT "block" FROM public."order_list_changes" WHERE ctid < least(first_pages, step_start)
        UNION ALL
        SELECT "block" FROM public."order_list_changes" WHERE ctid >= step_start AND ctid < step_end
    ) AS step;
    IF blocks > 16384 OR found - blocks > 256 THEN
        PERFORM set_config('petstore.compacting', 'on', true);
        WITH step AS MATERIALIZED (
            SELECT ctid AS place, "block" FROM public."order_list_changes" WHERE ctid < least(first_pages, step_start)
            UNION ALL
            SELECT ctid, "block" FROM public."order_list_changes" WHERE ctid >= step_start AND ctid < step_end
            UNION ALL
            SELECT earliest, NULL
            WHERE earliest >= least(first_pages, step_start) AND NOT (earliest >= step_start AND earliest < step_end)
        ), grouped AS MATERIALIZED (
            SELECT place, target, min(place) OVER (PARTITION BY target) AS kept
            FROM (SELECT place, CASE WHEN blocks <= 16384 THEN "block" END AS target FROM step) AS targets
        ), removed AS (
            DELETE FROM public."order_list_changes" USING grouped WHERE ctid = place AND place <> kept RETURNING kept, target, "token"
        ), added AS MATERIALIZED (
            SELECT kept, target, sum("token") AS tokens FROM removed GROUP BY kept, target
        ), merged AS (
            UPDATE public."order_list_changes" AS change
            SET "block" = target,
                "token" = mod(mod("token" + tokens, 18446744073709551616) + 27670116110564327424, 18446744073709551616) - 9223372036854775808
            FROM added WHERE change.ctid = kept RETURNING kept, "token"
        )
        SELECT mod(sum("token"), 18446744073709551616) INTO difference FROM (
            SELECT tokens AS "token" FROM added
            UNION ALL
            SELECT change."token" FROM public."order_list_changes" AS change JOIN added ON change.ctid = kept
            UNION ALL
            SELECT - "token"::numeric FROM merged
        ) AS both_sides;
        IF difference <> 0 THEN
            RAISE EXCEPTION 'A trigger on order_list_changes, or a concurrent change, does not keep merged tokens.';
        END IF;
        PERFORM set_config('petstore.compacting', '', true);
    END IF;
    RETURN from_page + pages;
END;
$$;

-- Room for merged rows to stay on their page, and a VACUUM as soon as many rows have been merged.
ALTER TABLE "order_list_changes" SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 250,
    autovacuum_vacuum_cost_delay = 0);

-- Whoever may call the function before it may call this one: `petstore_service`, or where the owner cannot create roles, the login itself.
REVOKE EXECUTE ON FUNCTION "merge_order_list_changes"(bigint, bigint) FROM PUBLIC;
DO $$
DECLARE
    grantee regrole;
BEGIN
    FOR grantee IN
        SELECT acl.grantee FROM pg_proc, aclexplode(proacl) AS acl
        WHERE pg_proc.oid = 'compact_order_list_changes(bigint)'::regprocedure AND acl.grantee NOT IN (0, proowner)
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION "merge_order_list_changes"(bigint, bigint) TO %s', grantee);
    END LOOP;
END;
$$;
