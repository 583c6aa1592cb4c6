import pg from 'pg';
import { othersInSchema } from '../../../prisma/engine/others-in-schema.mjs';
import { asError } from '../../common/as-error.js';
import { withDeadline } from '../../common/deadline.js';
import type { Config } from '../../config/config.js';
import { hasPooler } from '../../../prisma/engine/pooler.mjs';
import { serverProblem } from '../../database/check-server.js';
import { onlyRow } from '../../database/only-row.js';
import { openClient } from '../../database/open-client.js';
import { MAIN_CONNECTIONS_MAX } from '../../database/pools.js';
import { sessionSettings } from '../../database/session-settings.js';
import { runningEmbeddedDatabaseUrl } from '../embedded/embedded-database.js';
import { checkClock, error, ok, type Result, type Results, skipped, warning } from './check.js';
import { checkGrants } from './grants.js';
import { checkAccess, checkRole } from './rights.js';
import { checkList, checkSchema } from './schema.js';

/** All checks together take at most 15 s, whatever hangs. Milliseconds. */
const DATABASE_TIMEOUT_MS = 10_000;
const QUERY_TIMEOUT_MS = 2_000;

/** Each statement is a transaction of its own, so that a check that fails leaves the others. */
const SETTINGS = sessionSettings({ statement_timeout: 1_500, default_transaction_read_only: 'on' });

/** For `petstore` commands, migrations and an operator's psql. */
const COMMAND_CONNECTIONS = 10;

const CORRECT_URL = 'Correct DATABASE_URL or the server.';

type DatabaseCheck = (db: pg.Client, config: Config) => Promise<Result>;

const CHECKS: Readonly<Record<string, DatabaseCheck>> = {
  'connection limit': checkConnectionLimit,
  'clock of PostgreSQL': checkDatabaseClock,
  access: checkAccess,
  grants: checkGrants,
  schema: inSchema(checkSchema),
  list: inSchema(checkList),
  role: checkRole,
  'expiring keys': inSchema(checkExpiringKeys),
};

export async function checkDatabase(config: Config): Promise<Results> {
  const results: Results = {};
  await withDeadline(runDatabaseChecks(config, results), DATABASE_TIMEOUT_MS).catch((failure: unknown) => {
    // The first error says why a later step fails.
    if (results.database?.status !== 'error') {
      results.database = failed(failure);
    }
  });
  for (const name of Object.keys(CHECKS)) {
    results[name] ??= skipped('an earlier check has found a problem');
  }
  return results;
}

/** @param results gets each result when it is there: a later step may fail or hang */
async function runDatabaseChecks(config: Config, results: Results): Promise<void> {
  const databaseUrl = config.databaseUrl ?? runningEmbeddedDatabaseUrl();
  if (databaseUrl === undefined) {
    const remedy = 'Set DATABASE_URL, or start the embedded database with "npm start".';
    results.database = warning('DATABASE_URL is not set, and the embedded database is not running', remedy);
    return;
  }
  // What the service checks at its start, and what it tolerates.
  const problem = await serverProblem(databaseUrl);
  results.database = problem === undefined ? ok(addressOf(databaseUrl)) : error(problem.message, CORRECT_URL);
  // A pooler may give the settings of a session to other clients.
  if (problem?.isFatal === true) {
    return;
  }
  const db = await openClient(databaseUrl, { application_name: 'petstore-doctor', query_timeout: QUERY_TIMEOUT_MS });
  try {
    await db.query(SETTINGS);
    const others = await othersInSchema(db, { asService: true });
    if (others !== undefined) {
      const message = 'migrations end with an error, because others could run code with their privileges';
      results.access = warning(`${message}: ${others.message}`, others.remedy);
    }
    for (const [name, check] of Object.entries(CHECKS)) {
      results[name] ??= await check(db, config).catch(failed);
    }
  } finally {
    db.connection.stream.destroy();
  }
}

/** Without the right to use the schema, other things seem to be missing. */
function inSchema(check: DatabaseCheck): DatabaseCheck {
  return async (db, config) => {
    const { rows } = await db.query<{ usable: boolean }>(`SELECT has_schema_privilege('public', 'USAGE') AS usable`);
    return onlyRow(rows).usable ? check(db, config) : skipped('the login may not use the schema public');
  };
}

function addressOf(databaseUrl: string): string {
  const { host, port, database } = new pg.Client(databaseUrl);
  return `"${database ?? ''}" at ${host}:${port}`;
}

function failed(failure: unknown): Result {
  return error(asError(failure).message, 'Correct this error. The log of PostgreSQL has the statements that fail.');
}

/** The smallest of the limits of server, database and role, without reserved connections. */
const CONNECTION_LIMIT = `
  SELECT pg_backend_pid() AS process,
         (SELECT count(*)::integer FROM pg_stat_activity
          WHERE datname = current_database() AND application_name = 'petstore-listener') AS processes,
         least(
           current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
             - coalesce(current_setting('reserved_connections', true)::integer, 0),
           (SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = session_user),
           (SELECT nullif(datconnlimit, -1) FROM pg_database WHERE datname = current_database())
         ) AS "limit"`;

async function checkConnectionLimit(db: pg.Client, config: Config): Promise<Result> {
  type Row = Readonly<Record<'process' | 'processes' | 'limit', number>>;
  const { process, processes, limit } = onlyRow((await db.query<Row>(CONNECTION_LIMIT)).rows);
  if (hasPooler(db, process)) {
    return skipped('the pooler limits the connections');
  }
  // One for the image of the list, and one that listens.
  const perProcess = MAIN_CONNECTIONS_MAX + config.list.concurrency + 2;
  // One more process runs during a rolling update.
  const needed = (Math.max(1, processes) + 1) * perProcess + COMMAND_CONNECTIONS;
  const found = `${limit} connections for ${processes} running ${processes === 1 ? 'process' : 'processes'} (${perProcess} each)`;
  return limit >= needed
    ? ok(found)
    : warning(
        `${found} leave too few for a rolling update`,
        `Raise max_connections (or the CONNECTION LIMIT of the role or database) so that ${needed} are available, or lower LIST_CONCURRENCY.`,
      );
}

function checkDatabaseClock(db: pg.Client): Promise<Result> {
  return checkClock('PostgreSQL', async () => {
    const sql = 'SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS "nowMs"';
    return onlyRow((await db.query<{ nowMs: number }>(sql)).rows).nowMs;
  });
}

const EXPIRING_KEYS = `
  SELECT id || ' on ' || expires_at::date AS key FROM api_keys
  WHERE revoked_at IS NULL AND expires_at > now() AND expires_at <= now() + interval '30 days' ORDER BY expires_at`;

async function checkExpiringKeys(db: pg.Client): Promise<Result> {
  const keys = (await db.query<{ key: string }>(EXPIRING_KEYS)).rows.map(({ key }) => key);
  return keys.length === 0
    ? ok('none within 30 days')
    : warning(
        `${keys.length} within 30 days: ${keys.slice(0, 5).join(', ')}${keys.length > 5 ? ' and more' : ''}`,
        'Issue new keys with "petstore keys issue", then revoke these. Keys that were rotated need nothing.',
      );
}
