import type pg from 'pg';
import { othersInSchema } from '../../../prisma/engine/others-in-schema.mjs';
import { asError } from '../../common/as-error.js';
import type { Config } from '../../config/config.js';
import { serverProblem } from '../../database/check-server.js';
import { onlyRow } from '../../database/only-row.js';
import { openClient } from '../../database/open-client.js';
import { sessionSettings } from '../../database/session-settings.js';
import { type NameRow, NO_RENEWALS, SELECT_NAME, SELECT_PROBLEMS } from '../../orders/list/list-version.js';
import { runningEmbeddedDatabaseUrl } from '../embedded/embedded-database.js';
import { attempt, error, listOf, ok, type Result, type Results, warning } from './check.js';
import { checkRole } from './role.js';
import { checkSchema, MIGRATE } from './schema.js';

/** Each statement is a transaction of its own, so that a check that fails leaves the others. */
const SETTINGS = sessionSettings({ statement_timeout: 1_500, default_transaction_read_only: 'on' });

const CORRECT_URL = 'Correct DATABASE_URL or the server.';

export function checkDatabase(config: Config): Promise<Results> {
  return databaseResults(config).catch((failure: unknown) => ({
    database: error(asError(failure).message, CORRECT_URL),
  }));
}

async function databaseResults({ databaseUrl }: Config): Promise<Results> {
  const url = databaseUrl ?? runningEmbeddedDatabaseUrl();
  if (url === undefined) {
    const message = 'DATABASE_URL is not set, and the embedded database is not running';
    return { database: warning(message, 'Set DATABASE_URL, or start the embedded database with "npm start".') };
  }
  // What the service checks at its start.
  const problem = await serverProblem(url);
  if (problem !== undefined) {
    return { database: error(problem.message, CORRECT_URL) };
  }
  const db = await openClient(url, { application_name: 'petstore-doctor', query_timeout: 2_000 });
  try {
    await db.query(SETTINGS);
    return {
      database: ok(`"${db.database ?? ''}" at ${db.host}:${db.port}`),
      access: await attempt('See the log of PostgreSQL.', () => checkAccess(db)),
      schema: await attempt(MIGRATE, () => checkSchema(db)),
      list: await attempt(MIGRATE, () => checkList(db)),
      role: await attempt(MIGRATE, () => checkRole(db, { isEmbedded: databaseUrl === undefined })),
      'expiring keys': await attempt(MIGRATE, () => checkExpiringKeys(db)),
    };
  } finally {
    // `end` would wait for a server that hangs.
    db.connection.stream.destroy();
  }
}

async function checkAccess(db: pg.Client): Promise<Result> {
  const others = await othersInSchema(db);
  return others === undefined
    ? ok('nobody else may create in the schema public')
    : warning(`migrations end with an error: ${others.message}`, others.remedy);
}

async function checkList(db: pg.Client): Promise<Result> {
  const { catalogue, renewals } = onlyRow((await db.query<NameRow>(SELECT_NAME)).rows);
  const [found] = (await db.query<{ problems: string[] }>(SELECT_PROBLEMS, [catalogue])).rows;
  const problems = [...(found?.problems ?? []), ...(renewals === null ? [NO_RENEWALS] : [])];
  return problems.length === 0
    ? ok('served from versions')
    : warning(
        problems.join('; '),
        'Restore what the newest migration with its name made, for example with ALTER TABLE orders ENABLE ALWAYS TRIGGER NAME. ' +
          'Until then every list is read whole, without ETag: correct, but slow.',
      );
}

const EXPIRING_KEYS = `
  SELECT id || ' on ' || expires_at::date AS key FROM api_keys
  WHERE revoked_at IS NULL AND expires_at > now() AND expires_at <= now() + interval '30 days' ORDER BY expires_at`;

async function checkExpiringKeys(db: pg.Client): Promise<Result> {
  const keys = (await db.query<{ key: string }>(EXPIRING_KEYS)).rows.map(({ key }) => key);
  return keys.length === 0
    ? ok('none within 30 days')
    : warning(
        `within 30 days: ${listOf(keys)}`,
        'Issue new keys with "petstore keys issue", then revoke these. Keys that were rotated need nothing.',
      );
}
