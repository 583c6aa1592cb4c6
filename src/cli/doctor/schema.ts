import type pg from 'pg';
import { onlyRow } from '../../database/only-row.js';
import { NO_RENEWALS, SELECT_PROBLEMS } from '../../orders/list/list-machinery.js';
import { error, ok, type Result, warning } from './check.js';

/** By the tables that they create: the role of the service may not read Prisma's record. */
const MISSING_TABLES = `
  SELECT name FROM unnest(ARRAY['orders', 'api_keys', 'order_list_changes', 'api_key_usage']) AS name WHERE to_regclass(name) IS NULL`;

export async function checkMigrations(db: pg.Client): Promise<Result> {
  const { rows } = await db.query<{ name: string }>(MISSING_TABLES);
  return rows.length === 0
    ? ok('applied')
    : error(
        `no table ${rows.map(({ name }) => name).join(', ')}`,
        'Apply the migrations: "docker compose up migrate", or "npm run db:migrate" with the URL of the owner.',
      );
}

export async function checkList(db: pg.Client): Promise<Result> {
  const { problems } = onlyRow((await db.query<{ problems: string[] }>(SELECT_PROBLEMS)).rows);
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

const KEY_TRIGGER = `
  SELECT FROM pg_trigger
  WHERE tgrelid = to_regclass('public.api_keys') AND tgname = 'api_keys_notify_changed' AND tgenabled = 'A'`;

export async function checkKeyChanges(db: pg.Client): Promise<Result> {
  return (await db.query(KEY_TRIGGER)).rowCount === 1
    ? ok('notified')
    : error(
        'the trigger api_keys_notify_changed is disabled or missing: revoked keys are accepted from the cache',
        'Run as the owner: ALTER TABLE api_keys ENABLE ALWAYS TRIGGER api_keys_notify_changed.',
      );
}
