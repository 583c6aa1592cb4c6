-- Also for writers that switch triggers off with session_replication_role, such as logical replication: a key that they revoke
-- would otherwise stay valid until its cache entry expires.
ALTER TABLE "api_keys" ENABLE ALWAYS TRIGGER "api_keys_notify_changed";
