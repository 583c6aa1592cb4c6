import pg from 'pg';
import { asError } from '../common/as-error.js';
import { loadConfig } from '../config/config.js';
import { openClient } from '../database/open-client.js';
import { sessionSettings } from '../database/session-settings.js';
import { UsageError } from './report-error.js';

const SETTINGS = sessionSettings({
  // How long a command waits for a lock of another transaction.
  lock_timeout: 10_000,
  statement_timeout: 0,
  // A key that nobody reads from the pipe does not stay locked.
  idle_in_transaction_session_timeout: 30_000,
});

/** What a command needs to do its work. */
export interface TableAccess {
  readonly table: string;
  readonly privileges: readonly ('SELECT' | 'INSERT' | 'UPDATE')[];
}

interface AccessRow {
  readonly role: string;
  readonly isReadOnly: boolean;
  readonly exists: boolean;
  readonly missing: string[];
}

const CHECK_ACCESS = `
  SELECT current_user AS role, current_setting('transaction_read_only') = 'on' AS "isReadOnly",
         relation IS NOT NULL AS "exists",
         ARRAY(SELECT privilege FROM unnest($2::text[]) AS privilege WHERE NOT has_table_privilege(relation, privilege)) AS missing
  FROM to_regclass($1) AS relation`;

/**
 * Runs a command on a connection to its database: `DATABASE_URL`, or the embedded database of a running service.
 * @throws {ConfigurationError} @throws {UsageError} @throws {Error} when the database cannot be used
 */
export async function withDatabase<T>(
  accesses: readonly TableAccess[],
  work: (db: pg.Client, databaseUrl: string) => Promise<T>,
): Promise<T> {
  const connectionString = await databaseUrl();
  const db = await openClient(connectionString, { application_name: 'petstore-cli' }).catch((error: unknown) => {
    throw new Error(connectMessage(new pg.Client(connectionString), error), { cause: error });
  });
  try {
    await db.query(SETTINGS);
    for (const access of accesses) {
      await checkAccess(db, access);
    }
    return await work(db, connectionString);
  } finally {
    await db.end().catch(() => undefined);
  }
}

/** @throws {ConfigurationError} */
export function redisUrls(): readonly string[] {
  return loadConfig(environment('REDIS_URL', 'REDIS_URL_FILE')).redisUrls;
}

async function databaseUrl(): Promise<string> {
  const { databaseUrl } = loadConfig(environment('NODE_ENV', 'DATABASE_URL', 'DATABASE_URL_FILE'));
  if (databaseUrl !== undefined) {
    return databaseUrl;
  }
  const { runningEmbeddedDatabaseUrl } = await import('./embedded/embedded-database.js');
  const url = runningEmbeddedDatabaseUrl();
  if (url === undefined) {
    throw new UsageError(
      'No database: DATABASE_URL is not set and no service with an embedded database is running. ' +
        'Set DATABASE_URL, or run "npm start".',
    );
  }
  return url;
}

/** Only the variables that a command reads: an invalid PORT must not stop it. */
function environment(...names: string[]): NodeJS.ProcessEnv {
  return Object.fromEntries(names.map((name) => [name, process.env[name]]));
}

function connectMessage({ host, port, database, user }: pg.Client, error: unknown): string {
  return (
    `Cannot connect to the database "${database ?? ''}" at ${host}:${port} as "${user ?? ''}": ${asError(error).message}. ` +
    'Check DATABASE_URL and that PostgreSQL is running.'
  );
}

async function checkAccess(db: pg.Client, { table, privileges }: TableAccess): Promise<void> {
  const { rows } = await db.query<AccessRow>(CHECK_ACCESS, [table, privileges]);
  const [row] = rows;
  if (row?.exists !== true) {
    throw new Error(
      `The database has no table ${table}. Apply the migrations: "npm run db:migrate", or in containers "docker compose up migrate".`,
    );
  }
  const { role, isReadOnly, missing } = row;
  if (missing.length > 0) {
    throw new Error(
      `The role "${role}" lacks the privilege ${missing.join(', ')} on the table ${table}. ` +
        'Set DATABASE_URL to the login of an administrator; in containers use "docker compose run --rm admin".',
    );
  }
  if (isReadOnly && privileges.some((privilege) => privilege !== 'SELECT')) {
    throw new Error('The database is read-only, as a standby server is. Set DATABASE_URL to the primary server.');
  }
}
