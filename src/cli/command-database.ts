import type pg from 'pg';
import { warningOfOthers } from '../../prisma/engine/others-in-schema.mjs';
import { SHARED_SERVERS, sharesServers } from '../../prisma/engine/pooler.mjs';
import { asError } from '../common/as-error.js';
import type { Config } from '../config/config.js';
import type { OpenPrisma } from '../database/open-prisma.js';
import {
  databaseMessageOf,
  LOCK_NOT_AVAILABLE,
  READ_ONLY_TRANSACTION,
  sqlStateOf,
  UNDEFINED_TABLE,
} from '../database/postgres-errors.js';
import { sessionSettings } from '../database/session-settings.js';
import { UsageError } from './arguments.js';
import { runningEmbeddedDatabaseUrl } from './embedded/embedded-database.js';
import { warn } from './output.js';

const SETTINGS = sessionSettings({
  // How long a command waits for a lock of another transaction.
  lock_timeout: 10_000,
  statement_timeout: 0,
  // A key that nobody reads from the pipe does not stay locked.
  idle_in_transaction_session_timeout: 30_000,
});

const OPTIONS = { application_name: 'petstore-cli' };

const INSUFFICIENT_PRIVILEGE = '42501';
const CHECK_VIOLATION = '23514';
const UNTRANSLATABLE_CHARACTER = '22P05';
const USE_UTF8 = 'Use a name that the encoding of the database can hold, or a database with ENCODING UTF8.';

/** What an operator can do about an error of PostgreSQL. */
const REMEDIES: Readonly<Record<string, string>> = {
  [UNDEFINED_TABLE]: 'Apply the migrations: "npm run db:migrate", or in containers "docker compose run --rm migrate".',
  [INSUFFICIENT_PRIVILEGE]:
    'Set DATABASE_URL to the login of an administrator; in containers use "docker compose run --rm admin".',
  [LOCK_NOT_AVAILABLE]:
    'Another transaction, such as another import, holds the lock. Nothing was changed; retry when it has ended.',
  [UNTRANSLATABLE_CHARACTER]: USE_UTF8,
  // SQL_ASCII does not know which bytes are letters.
  [CHECK_VIOLATION]: `If the constraint is api_keys_name_printable: ${USE_UTF8}`,
  [READ_ONLY_TRANSACTION]: 'Set DATABASE_URL to the primary server; a standby is read-only.',
};

/**
 * Runs a command on a connection to its database: `DATABASE_URL`, or the embedded database of a running service.
 * @throws {ConfigurationError} @throws {UsageError} @throws {Error} when the database cannot be used
 */
export async function withDatabase<T>(work: (connection: OpenPrisma) => Promise<T>): Promise<T> {
  const url = await databaseUrl();
  // Imported on demand, so that --help is fast.
  const [{ openClient }, { openPrisma }] = await Promise.all([
    import('../database/open-client.js'),
    import('../database/open-prisma.js'),
  ]);
  // An unreachable server is reported below.
  if (await sharesServers(() => openClient(url, OPTIONS)).catch(() => false)) {
    throw new Error(SHARED_SERVERS);
  }
  const connection = await openPrisma(url, SETTINGS, OPTIONS).catch((error: unknown) => {
    throw new Error(
      `Cannot connect to the database at ${new URL(url).host}: ${asError(error).message}. ` +
        'Check DATABASE_URL and that PostgreSQL is running.',
      { cause: error },
    );
  });
  try {
    await warnOfOthers(connection.db);
    return await work(connection);
  } catch (error) {
    throw commandError(error, connection.db);
  } finally {
    await connection.end().catch(() => undefined);
  }
}

/** Only a warning, also when the login may not find out: a leaked key must be revoked whatever else is wrong. */
async function warnOfOthers(db: pg.Client): Promise<void> {
  const problem = await warningOfOthers(db).catch((error: unknown) => {
    if (db.connection.stream.destroyed) {
      throw error;
    }
    return `Cannot find out whether others may create in the schema public: ${databaseMessageOf(error)}. Run "petstore doctor".`;
  });
  if (problem !== undefined) {
    warn(problem);
  }
}

/** The error for the operator: what PostgreSQL said, and what to do about it. */
function commandError(error: unknown, db: pg.Client): unknown {
  const message = databaseMessageOf(error);
  // The server may report it before it ends the session.
  if (db.connection.stream.destroyed || (sqlStateOf(error)?.startsWith('57P') ?? false)) {
    return new Error(
      `The connection to the database was lost (${message}). ` +
        'If the command changes something, check whether it did before you repeat it.',
      { cause: error },
    );
  }
  const remedy = REMEDIES[sqlStateOf(error) ?? ''];
  if (remedy !== undefined) {
    return new Error(`The database rejects the command of "${db.user}": ${message}. ${remedy}`, { cause: error });
  }
  return message === asError(error).message ? error : new Error(message, { cause: error });
}

/** @throws {ConfigurationError} */
export async function redisUrl(): Promise<string | undefined> {
  return (await configOf('REDIS_URL', 'REDIS_URL_FILE')).redisUrl;
}

async function databaseUrl(): Promise<string> {
  const { databaseUrl: configured } = await configOf('NODE_ENV', 'DATABASE_URL', 'DATABASE_URL_FILE');
  const url = configured ?? runningEmbeddedDatabaseUrl();
  if (url === undefined) {
    throw new UsageError(
      'No database: DATABASE_URL is not set and no service with an embedded database is running. ' +
        'Set DATABASE_URL, or run "npm start".',
    );
  }
  return url;
}

/** Only the variables that a command reads: an invalid PORT must not stop it. Imported on demand, so that --help is fast. */
async function configOf(...names: string[]): Promise<Config> {
  const { loadConfig } = await import('../config/config.js');
  return loadConfig(Object.fromEntries(names.map((name) => [name, process.env[name]])));
}
