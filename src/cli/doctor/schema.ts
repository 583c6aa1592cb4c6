import { createHash } from 'node:crypto';
import type pg from 'pg';
import { error, listOf, ok, type Result, warning } from './check.js';

export const MIGRATE =
  'Apply the migrations: "docker compose run --rm migrate", or "npm run db:migrate" with the URL of the owner.';

const RESTORE = 'Restore it from a backup, or as the owner with its statements from prisma/migrations/.';

/**
 * The first digits of the SHA-256 of what the migrations make, as PostgreSQL prints it. Columns are the matter of other checks: those of
 * the list and of the rights. A test prints what belongs here after a new migration.
 */
export const EXPECTED: Readonly<Record<string, string>> = {
  'constraint api_key_usage_pkey of api_key_usage': '795436af',
  'constraint api_keys_expires_at_finite of api_keys': '4d8beb31',
  'constraint api_keys_key_hash_sha256 of api_keys': '68c69547',
  'constraint api_keys_name_not_blank of api_keys': 'dd91a196',
  'constraint api_keys_name_printable of api_keys': '678e5f9e',
  'constraint api_keys_name_without_key of api_keys': '0a919188',
  'constraint api_keys_pkey of api_keys': '8c8464f4',
  'constraint api_keys_quotas_iff_enterprise of api_keys': '3e97b43f',
  'constraint api_keys_quotas_positive of api_keys': '42e0f36b',
  'constraint orders_cancelled_at_iff_cancelled of orders': '1eeaae41',
  'constraint orders_complete_implies_shipped of orders': 'ec6e9972',
  'constraint orders_pkey of orders': '8c8464f4',
  'constraint orders_quantity_positive of orders': 'a2ac99cd',
  'constraint orders_ship_date_rfc3339 of orders': '0c968103',
  'function compact_order_list_changes': 'c8fad6af',
  'function merge_order_list_changes': 'd0783e1e',
  'function note_order_list_blocks': '23001246',
  'function note_order_list_change': '9c868aec',
  'function notify_api_key_changed': '54fa5572',
  'function renew_changed_order_list_versions': '8abc6868',
  'function renew_order_list_versions': '7bd31519',
  'index api_keys_key_hash_key': '8223e256',
  'trigger api_keys_notify_changed of api_keys': 'c5758a38',
  'trigger order_list_changes_renew of order_list_changes': '03011c6d',
  'trigger orders_note_delete of orders': 'cc40e4c8',
  'trigger orders_note_insert of orders': 'f4718fbd',
  'trigger orders_note_update of orders': '9b86aaa3',
};

const SELECT_DEFINITIONS = `
  SELECT format('constraint %s of %s', conname, relname) AS object, pg_get_constraintdef(pg_constraint.oid) AS definition
  FROM pg_constraint JOIN pg_class ON pg_class.oid = conrelid WHERE relnamespace = 'public'::regnamespace AND contype <> 'n'
  UNION ALL
  SELECT format('index %s', relname), pg_get_indexdef(oid)
  FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'i'
    AND oid NOT IN (SELECT conindid FROM pg_constraint)
  UNION ALL
  SELECT format('trigger %s of %s', tgname, relname), concat(pg_get_triggerdef(pg_trigger.oid), tgenabled)
  FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid WHERE relnamespace = 'public'::regnamespace AND NOT tgisinternal
  UNION ALL
  SELECT format('function %s', proname), pg_get_functiondef(oid)
  FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prokind = 'f'`;

/** What is in the schema, as {@link EXPECTED}. */
export async function definitionsIn(db: pg.ClientBase): Promise<Map<string, string>> {
  const { rows } = await db.query<Record<'object' | 'definition', string>>(SELECT_DEFINITIONS);
  const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 8);
  return new Map(rows.map(({ object, definition }) => [object, digestOf(definition)]));
}

/** Fails where psql applied the migrations: there is no record of Prisma, or no right to read it. */
const UNFINISHED = `
  SELECT migration_name AS name FROM _prisma_migrations WHERE finished_at IS NULL AND rolled_back_at IS NULL`;

/** Whether the schema is as the migrations made it. What others have added is not checked. */
export async function checkSchema(db: pg.Client): Promise<Result> {
  const recorded = await db.query<{ name: string }>(UNFINISHED).catch(() => undefined);
  const unfinished = recorded?.rows[0]?.name;
  if (unfinished !== undefined) {
    return error(
      `the migration ${unfinished} is running, was interrupted or has failed`,
      `If none is running, run "npx prisma migrate resolve --rolled-back ${unfinished}" as the owner (with --applied if what it makes ` +
        'is there), and apply the migrations again.',
    );
  }
  const found = await definitionsIn(db);
  const missing = Object.keys(EXPECTED).filter((object) => !found.has(object));
  if (missing.length > 0) {
    return error(`missing: ${listOf(missing)}`, `${MIGRATE} If they are applied: ${RESTORE}`);
  }
  const changed = Object.keys(EXPECTED).filter((object) => found.get(object) !== EXPECTED[object]);
  return changed.length > 0
    ? warning(
        `not as the migrations of this version make it: ${listOf(changed)}`,
        `Unless a newer version did it: ${RESTORE}`,
      )
    : ok('as the migrations made it');
}
