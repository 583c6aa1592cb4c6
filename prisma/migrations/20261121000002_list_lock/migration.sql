-- A list locks the table before it takes its snapshot: after a rewrite (ALTER TABLE, TRUNCATE) an older snapshot would see an
-- empty table. LOCK TABLE … IN ACCESS SHARE MODE asks for SELECT on the whole table; the rights on columns are not enough.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'petstore_service') THEN
        GRANT SELECT ON "orders" TO "petstore_service";
    END IF;
END;
$$;
