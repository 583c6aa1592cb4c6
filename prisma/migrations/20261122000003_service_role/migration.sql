-- Creates the role of the running service and grants it only the rights that the service needs.
-- A login role gets it by membership: CREATE ROLE petstore_app LOGIN PASSWORD '...' IN ROLE petstore_service.
-- Roles belong to the whole cluster, so an administrator, or another database's migration, may have made it already.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'petstore_service') THEN
        CREATE ROLE "petstore_service" NOLOGIN;
    END IF;
EXCEPTION
    WHEN duplicate_object OR unique_violation THEN NULL;
    WHEN insufficient_privilege THEN
        RAISE WARNING 'The role petstore_service could not be made; have it made by an administrator and grant it what this migration would have granted.';
END;
$$;

-- A list locks the table before it takes its snapshot, and LOCK TABLE ... IN ACCESS SHARE MODE asks for SELECT on the whole table.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'petstore_service') THEN
        GRANT USAGE ON SCHEMA "public" TO "petstore_service";
        GRANT SELECT, UPDATE ("status", "cancelled_at") ON "orders" TO "petstore_service";
        GRANT SELECT ("id", "key_hash", "plan", "requests_per_minute", "requests_per_day", "expires_at", "revoked_at", "last_used_at"),
            UPDATE ("last_used_at") ON "api_keys" TO "petstore_service";
        GRANT SELECT ON "order_list_changes" TO "petstore_service";
        GRANT EXECUTE ON FUNCTION "compact_order_list_changes"(bigint), "note_order_list_blocks"(bigint, bigint) TO "petstore_service";
        GRANT SELECT, INSERT, DELETE, UPDATE ("admitted", "rejected", "banned", "lists", "cancels", "list_bytes")
            ON "api_key_usage" TO "petstore_service";
        -- For "petstore doctor": Prisma's record of the migrations, which is missing where psql applied them.
        IF to_regclass('public._prisma_migrations') IS NOT NULL THEN
            GRANT SELECT ("migration_name", "finished_at", "rolled_back_at") ON "_prisma_migrations" TO "petstore_service";
        END IF;
    END IF;
END;
$$;
