/**
 * Every migration of this version, with an SQL expression that is true once the migration has been applied: the role of the
 * service may not read Prisma's record. Undefined for a migration that creates nothing; the check of the role covers grants.
 */
export const MIGRATIONS: Readonly<Record<string, string | undefined>> = {
  '20261122000000_orders_and_keys': `
    EXISTS (SELECT FROM pg_trigger WHERE tgrelid = to_regclass('public.api_keys')
            AND tgname = 'api_keys_notify_changed' AND tgenabled = 'A')`,
  '20261122000001_order_list_versions': "to_regprocedure('public.compact_order_list_changes(bigint)') IS NOT NULL",
  '20261122000002_api_key_usage': "to_regclass('public.api_key_usage') IS NOT NULL",
  '20261122000003_service_role': undefined,
};

/** The triggers that the service relies on: without them it would serve stale lists and accept revoked keys. */
export const TRIGGERS: Readonly<Record<string, { readonly table: string; readonly mode: 'ALWAYS' | 'REPLICA' }>> = {
  api_keys_notify_changed: { table: 'api_keys', mode: 'ALWAYS' },
  orders_note_delete: { table: 'orders', mode: 'ALWAYS' },
  orders_note_insert: { table: 'orders', mode: 'ALWAYS' },
  orders_note_replicated_delete: { table: 'orders', mode: 'REPLICA' },
  orders_note_replicated_insert: { table: 'orders', mode: 'REPLICA' },
  orders_note_update: { table: 'orders', mode: 'ALWAYS' },
};
