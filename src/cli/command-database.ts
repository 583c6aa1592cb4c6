import type pg from 'pg';
import { othersInSchema } from '../../prisma/engine/others-in-schema.mjs';
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
});

const INSUFFICIENT_PRIVILEGE = '42501';

/** What an operator can do about an error of PostgreSQL. */
const REMEDIES: Readonly<Record<string, string>> = {
  [UNDEFINED_TABLE]: 'Apply the migrations: "npm run db:migrate", or in containers "docker compose run --rm migrate".',
  [INSUFFICIENT_PRIVILEGE]:
    'Set DATABASE_URL to the login of an administrator; in containers use "docker compose run --rm admin".',
  [LOCK_NOT_AVAILABLE]:
    'Another transaction, such as another import, holds the lock. Nothing was changed; retry when it has ended.',
  [READ_ONLY_TRANSACTION]: 'Set DATABASE_URL to the primary server; a standby is read-only.',
};

/**
 * Runs a command on a connection to its database: `DATABASE_URL`, or the embedded database of a running service.
 * @throws {ConfigurationError} @throws {UsageError} @throws {Error} when the database cannot be used
 */
export async function withDatabase<T>(work: (connection: OpenPrisma) => Promise<T>): Promise<T> {
  const url = await databaseUrl();
  // Imported on demand, so that --help is fast.
  const [{ serverProblem }, { openPrisma }] = await Promise.all([
    import('../database/check-server.js'),
    import('../database/open-prisma.js'),
  ]);
  // A transient problem is reported below, or by the statement that it concerns: a standby can be read.
  const problem = await serverProblem(url);
  if (problem?.isFatal === true) {
    throw new Error(problem.message);
  }
  const connection = await openPrisma(url, SETTINGS, { application_name: 'petstore-cli' }).catch((error: unknown) => {
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
    const remedy = REMEDIES[sqlStateOf(error) ?? ''];
    throw new Error([databaseMessageOf(error), remedy].filter(Boolean).join('. '), { cause: error });
  } finally {
    await connection.end().catch(() => undefined);
  }
}

/** Only a warning, also when the login may not find out: a leaked key must be revoked whatever else is wrong. */
async function warnOfOthers(db: pg.Client): Promise<void> {
  try {
    const others = await othersInSchema(db);
    if (others !== undefined) {
      warn(`${others.message}. ${others.remedy}`);
    }
  } catch (error) {
    warn(`Cannot find out who may create in the schema public: ${databaseMessageOf(error)}`);
  }
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
