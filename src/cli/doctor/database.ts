import pg from 'pg';
import { asError } from '../../common/as-error.js';
import type { Clock } from '../../common/clock.js';
import { DeadlineExceeded, withDeadline } from '../../common/deadline.js';
import { type Config, ConfigurationError } from '../../config/config.js';
import { checkServer } from '../../database/check-server.js';
import { messageOf } from '../report-error.js';
import type { Configuration } from './configuration.js';
import { expiringKeysFinding, readExpiringKeys } from './expiring-keys.js';
import { error, type Finding, type Findings, noneChecked, notChecked, warning } from './finding.js';
import { readRole, roleFinding } from './role.js';
import { readSchema, SCHEMA_CHECKS, schemaFindings } from './schema.js';
import { readServer, SERVER_CHECKS, serverFindings } from './server.js';

/** Milliseconds, as all durations here. All checks together take at most 15 s, whatever hangs. */
const CONNECT_TIMEOUT_MS = 3_000;
const STATEMENT_TIMEOUT_MS = 1_500;
const SECTION_TIMEOUT_MS = 2_000;
const START_CHECK_TIMEOUT_MS = 5_000;

/** Checks the database that the service would use, and counts the running processes of the service. */
export async function checkDatabase(
  { config, invalid }: Configuration,
  clock: Clock,
): Promise<{ findings: Findings; processes: number }> {
  if (invalid.has('DATABASE_URL')) {
    return unavailable('DATABASE_URL is invalid');
  }
  const isEmbedded = config.databaseUrl === undefined;
  const connectionString = config.databaseUrl ?? (await embeddedDatabaseUrl());
  if (connectionString === undefined) {
    return unavailable(
      'no database',
      warning(
        'DATABASE_URL is not set, and the embedded database does not run',
        'Set DATABASE_URL, or start the embedded database with "npm start".',
      ),
    );
  }
  const db = new pg.Client({
    connectionString,
    application_name: 'petstore-doctor',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  });
  db.on('error', () => undefined);
  try {
    // The timeout of `pg` does not cover the look-up of the host name.
    await withDeadline(db.connect(), CONNECT_TIMEOUT_MS + 500);
  } catch (failure) {
    // The socket may still be connecting; ending it must not delay the others.
    db.end().catch(() => undefined);
    return unavailable(
      'database unreachable',
      error(
        `"${db.database ?? ''}" at ${db.host}:${db.port} as "${db.user ?? ''}": ${reasonOf(failure)}`,
        'Check DATABASE_URL, that PostgreSQL runs, and that this host may connect to it.',
      ),
    );
  }
  try {
    const startProblems = startProblemsOf(config);
    const server = await section(db, () => readServer(db, isEmbedded, clock));
    const schema = await section(db, () => readSchema(db));
    const role = await section(db, () => readRole(db, isEmbedded));
    const expiringKeys = await section(db, () => readExpiringKeys(db));
    const problems = await startProblems;
    return {
      processes: 'value' in server ? server.value.processes : 0,
      findings: {
        ...findingsOf(SERVER_CHECKS, server, (facts) => serverFindings(facts, config, problems)),
        ...findingsOf(SCHEMA_CHECKS, schema, schemaFindings),
        ...findingsOf(['role'], role, (facts) => ({ role: roleFinding(facts) })),
        ...findingsOf(['expiring keys'], expiringKeys, (facts) => ({ 'expiring keys': expiringKeysFinding(facts) })),
      },
    };
  } finally {
    db.connection.stream.destroy();
  }
}

function unavailable(reason: string, finding: Finding = notChecked(reason)): { findings: Findings; processes: number } {
  const names = [...SERVER_CHECKS, ...SCHEMA_CHECKS, 'role', 'expiring keys'];
  return { processes: 0, findings: { ...noneChecked(names, reason), database: finding } };
}

/** What was read, or why it could not be. */
type Known<T> = { readonly value: T } | { readonly reason: string };

/** Reads in a read-only transaction that is rolled back, so that a section that fails leaves the others. */
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
  } catch (failure) {
    return { reason: reasonOf(failure) };
  }
}

function findingsOf<T>(names: readonly string[], facts: Known<T>, evaluate: (facts: T) => Findings): Findings {
  return 'value' in facts ? evaluate(facts.value) : noneChecked(names, facts.reason);
}

/** The checks of the service at its start, on connections of their own. */
async function startProblemsOf(config: Config): Promise<readonly string[]> {
  try {
    await withDeadline(checkServer({ ...config, databaseDirectUrl: undefined }), START_CHECK_TIMEOUT_MS);
    return [];
  } catch (failure) {
    return failure instanceof ConfigurationError ? failure.problems : [];
  }
}

async function embeddedDatabaseUrl(): Promise<string | undefined> {
  const { runningEmbeddedDatabaseUrl } = await import('../embedded/embedded-database.js');
  return runningEmbeddedDatabaseUrl();
}

function reasonOf(failure: unknown): string {
  return failure instanceof DeadlineExceeded ? 'the database does not respond' : messageOf(asError(failure));
}
