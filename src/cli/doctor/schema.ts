import type pg from 'pg';
import { onlyRow } from '../../database/only-row.js';
import { NO_RENEWALS, problemsOf, SELECT_FACTS } from '../../orders/list/list-integrity.js';
import { error, ok, type Result, skipped, warning } from './check.js';

const TABLES = ['orders', 'api_keys', 'order_list_changes', 'api_key_usage'];

/** Prisma's record of the migrations is missing where psql applied them. */
const HAS_RECORD = `SELECT coalesce(has_column_privilege(to_regclass('_prisma_migrations'), 'finished_at', 'SELECT'), false) AS has`;
const UNFINISHED = `
  SELECT migration_name AS name FROM _prisma_migrations WHERE finished_at IS NULL AND rolled_back_at IS NULL`;

/** Not by `to_regclass`, which finds nothing without the right to use the schema. */
const EXISTING_TABLES = `
  SELECT relname AS name, row_security_active(oid) AS "hidesRows" FROM pg_class WHERE relnamespace = 'public'::regnamespace`;

const NOTIFYING_TRIGGER = `
  SELECT FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
  WHERE relnamespace = 'public'::regnamespace AND relname = 'api_keys' AND tgname = 'api_keys_notify_changed' AND tgenabled = 'A'`;

/** What the migrations have made, apart from the list and from grants, which have checks of their own. */
export async function checkSchema(db: pg.Client): Promise<Result> {
  const { has } = onlyRow((await db.query<{ has: boolean }>(HAS_RECORD)).rows);
  const unfinished = has ? (await db.query<{ name: string }>(UNFINISHED)).rows[0]?.name : undefined;
  if (unfinished !== undefined) {
    return error(
      `the migration ${unfinished} was interrupted or has failed`,
      `If none is running, run "npx prisma migrate resolve --rolled-back ${unfinished}" as the owner, and apply the migrations again.`,
    );
  }
  const { rows: existing } = await db.query<{ name: string; hidesRows: boolean }>(EXISTING_TABLES);
  const missing = TABLES.filter((table) => !existing.some(({ name }) => name === table));
  if (missing.length > 0) {
    return error(
      `no table ${missing.join(', no table ')}`,
      'Apply the migrations: "docker compose up migrate", or "npm run db:migrate" with the URL of the owner. If they are recorded as applied, ' +
        'that does nothing: restore the table from a backup, or run its statements from prisma/migrations/ as the owner.',
    );
  }
  const hidden = existing.filter(({ name, hidesRows }) => hidesRows && TABLES.includes(name)).map(({ name }) => name);
  if (hidden.length > 0) {
    return error(
      `row-level security of ${hidden.join(', ')} keeps rows from the service`,
      `Run as the owner: ${hidden.map((table) => `ALTER TABLE ${table} DISABLE ROW LEVEL SECURITY`).join('; ')}.`,
    );
  }
  return (await db.query(NOTIFYING_TRIGGER)).rowCount === 1
    ? ok('as the migrations made it')
    : error(
        'no enabled trigger api_keys_notify_changed, without which revoked keys are accepted from the cache',
        'Run as the owner: ALTER TABLE api_keys ENABLE ALWAYS TRIGGER api_keys_notify_changed.',
      );
}

export async function checkList(db: pg.Client): Promise<Result> {
  const problems = problemsOf(onlyRow((await db.query<{ facts: string[] }>(SELECT_FACTS)).rows).facts);
  if (problems.includes('missing: table orders')) {
    return skipped('there is no table orders');
  }
  if (problems.length === 0) {
    const { rowCount } = await db.query('SELECT FROM order_list_changes WHERE block IS NULL LIMIT 1');
    problems.push(...(rowCount === 0 ? [NO_RENEWALS] : []));
  }
  return problems.length === 0
    ? ok('served from versions')
    : warning(
        problems.join('; '),
        'Make it as 20261122000001_order_list_versions/migration.sql does, such as with ALTER TABLE orders ENABLE ALWAYS ' +
          'TRIGGER NAME. Until then every list is read whole, without ETag: right, but slow.',
      );
}
