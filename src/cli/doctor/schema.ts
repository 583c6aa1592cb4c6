import type pg from 'pg';
import { onlyRow } from '../../database/only-row.js';
import { NO_RENEWALS, problemsOf, SELECT_FACTS } from '../../orders/list/list-machinery.js';
import { error, ok, type Result, warning } from './check.js';

/** Whether Prisma keeps a record of the migrations: not where psql applied them. */
const HAS_RECORD = `SELECT coalesce(has_column_privilege(to_regclass('_prisma_migrations'), 'finished_at', 'SELECT'), false) AS has`;
const SELECT_UNFINISHED =
  'SELECT migration_name AS name FROM _prisma_migrations WHERE finished_at IS NULL AND rolled_back_at IS NULL';

/** What the migrations have made, apart from the list and from grants, which have checks of their own. */
const SELECT_MISSING = `
  SELECT 'table ' || name AS name
  FROM unnest(ARRAY['orders', 'api_keys', 'order_list_changes', 'api_key_usage']) AS name
  WHERE name NOT IN (SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace)
  UNION ALL
  SELECT 'enabled trigger api_keys_notify_changed' WHERE NOT EXISTS (
    SELECT FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
    WHERE relnamespace = 'public'::regnamespace AND relname = 'api_keys' AND tgname = 'api_keys_notify_changed' AND tgenabled = 'A')`;

export async function checkSchema(db: pg.Client): Promise<Result> {
  const { has } = onlyRow((await db.query<{ has: boolean }>(HAS_RECORD)).rows);
  const unfinished = has ? (await db.query<{ name: string }>(SELECT_UNFINISHED)).rows[0]?.name : undefined;
  if (unfinished !== undefined) {
    return error(
      `the migration ${unfinished} was interrupted or has failed`,
      `If none is running, run "npx prisma migrate resolve --rolled-back ${unfinished}" as the owner, and apply the migrations again.`,
    );
  }
  const { rows } = await db.query<{ name: string }>(SELECT_MISSING);
  return rows.length === 0
    ? ok('as the migrations made it')
    : error(
        `no ${rows.map(({ name }) => name).join(', no ')}`,
        'Apply the migrations: "docker compose up migrate", or "npm run db:migrate" with the URL of the owner. For the trigger, without ' +
          'which revoked keys are accepted from the cache: ALTER TABLE api_keys ENABLE ALWAYS TRIGGER api_keys_notify_changed.',
      );
}

export async function checkList(db: pg.Client): Promise<Result> {
  const problems = problemsOf(onlyRow((await db.query<{ facts: string[] }>(SELECT_FACTS)).rows).facts);
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
