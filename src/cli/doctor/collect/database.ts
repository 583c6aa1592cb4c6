import pg from 'pg';
import { asError } from '../../../common/as-error.js';
import type { Clock } from '../../../common/clock.js';
import { DeadlineExceeded, withDeadline } from '../../../common/deadline.js';
import { type Config, ConfigurationError } from '../../../config/config.js';
import { checkServer } from '../../../database/check-server.js';
import { messageOf } from '../../report-error.js';
import { type ConfigurationFacts, type Facts, type Known, type Unknown } from '../facts.js';
import { error as errorFinding, warning } from '../finding.js';
import { readExpiringKeys, readRole, readSchema, readServer } from './database-queries.js';

/** Milliseconds, as all durations here. All checks together take at most 15 s, whatever hangs. */
const CONNECT_TIMEOUT_MS = 3_000;
const STATEMENT_TIMEOUT_MS = 1_500;
const SECTION_TIMEOUT_MS = 2_000;
const START_CHECK_TIMEOUT_MS = 5_000;

type DatabaseFacts = Pick<Facts, 'server' | 'schema' | 'role' | 'expiringKeys'>;

/** The database that the service would use. */
interface Target {
  readonly url: string;
  readonly isEmbedded: boolean;
}

/**
 * Reads the facts on one connection, each section in a read-only transaction of its own that is rolled back, so that one
 * that fails leaves the others.
 */
export async function collectDatabase(configuration: ConfigurationFacts, clock: Clock): Promise<DatabaseFacts> {
  const target = await targetOf(configuration);
  if ('reason' in target) {
    return everywhere(target);
  }
  const db = new pg.Client({
    connectionString: target.url,
    application_name: 'petstore-doctor',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  });
  db.on('error', () => undefined);
  try {
    // The timeout of `pg` does not cover the look-up of the host name.
    await withDeadline(db.connect(), CONNECT_TIMEOUT_MS + 500);
  } catch (error) {
    // The socket may still be connecting; ending it must not delay the others.
    void db.end().catch(() => undefined);
    return everywhere({
      reason: 'database unreachable',
      finding: errorFinding(
        `"${db.database ?? ''}" at ${db.host}:${db.port} as "${db.user ?? ''}": ${reasonOf(error)}`,
        'Check DATABASE_URL, that PostgreSQL runs, and that this host may connect to it.',
      ),
    });
  }
  try {
    const problems = startProblemsOf(configuration.config);
    const server = await section(db, () => readServer(db, target.isEmbedded, clock));
    return {
      server: 'value' in server ? { value: { ...server.value, startProblems: await problems } } : server,
      schema: await section(db, () => readSchema(db)),
      role: await section(db, () => readRole(db, target.isEmbedded)),
      expiringKeys: await section(db, () => readExpiringKeys(db)),
    };
  } finally {
    db.connection.stream.destroy();
  }
}

/** The checks of the service at its start, on connections of their own. */
async function startProblemsOf(config: Config): Promise<readonly string[]> {
  try {
    await withDeadline(checkServer({ ...config, databaseDirectUrl: undefined }), START_CHECK_TIMEOUT_MS);
    return [];
  } catch (error) {
    return error instanceof ConfigurationError ? error.problems : [];
  }
}

async function targetOf({ config, invalid }: ConfigurationFacts): Promise<Target | Unknown> {
  if (config.databaseUrl !== undefined) {
    return { url: config.databaseUrl, isEmbedded: false };
  }
  if (invalid.has('DATABASE_URL')) {
    return { reason: 'DATABASE_URL is invalid' };
  }
  const { runningEmbeddedDatabaseUrl } = await import('../../../embedded/embedded-service.js');
  const url = runningEmbeddedDatabaseUrl();
  return url === undefined
    ? {
        reason: 'no database',
        finding: warning(
          'DATABASE_URL is not set, and the embedded database does not run',
          'Set DATABASE_URL, or start the embedded database with "npm start".',
        ),
      }
    : { url, isEmbedded: true };
}

async function section<T>(db: pg.Client, read: () => Promise<T>): Promise<Known<T>> {
  const run = async (): Promise<T> => {
    await db.query(
      `BEGIN READ ONLY; SET LOCAL statement_timeout = ${STATEMENT_TIMEOUT_MS}; SET LOCAL search_path = public`,
    );
    try {
      return await read();
    } finally {
      await db.query('ROLLBACK');
    }
  };
  try {
    return { value: await withDeadline(run(), SECTION_TIMEOUT_MS) };
  } catch (error) {
    return { reason: reasonOf(error) };
  }
}

function everywhere(unknown: Unknown): DatabaseFacts {
  return { server: unknown, schema: unknown, role: unknown, expiringKeys: unknown };
}

function reasonOf(error: unknown): string {
  return error instanceof DeadlineExceeded ? 'the database does not respond' : messageOf(asError(error));
}
