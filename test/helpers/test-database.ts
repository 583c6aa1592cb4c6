import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { openPool } from './open-pool.js';

/** A migrated database for one test file, with a pool to set up and check rows. */
export interface TestDatabase {
  readonly url: string;
  readonly db: pg.Pool;
  /** Closes the pool and drops the database. */
  drop(): Promise<void>;
}

export async function createTestDatabase(): Promise<TestDatabase> {
  const name = `test_${randomBytes(8).toString('hex')}`;
  await asSuperuser(async (client) =>
    client.query(
      `CREATE DATABASE ${name} TEMPLATE ${variable('TEST_TEMPLATE_DATABASE')} ${await copyStrategy(client)}`,
    ),
  );
  const url = urlOf(name);
  // The service counts UTC days, so CURRENT_DATE of a test must be one too.
  const db = openPool({ connectionString: url, max: 20, options: '-c timezone=UTC' });
  return {
    url,
    db,
    drop: async () => {
      await db.end();
      await asSuperuser((client) => client.query(`DROP DATABASE ${name} WITH (FORCE)`));
    },
  };
}

/** A database for the tests of the file or of the `describe` block that calls it; it is there when they run. */
export function useTestDatabase(): TestDatabase {
  const database = {} as TestDatabase;
  beforeAll(async () => {
    Object.assign(database, await createTestDatabase());
  });
  afterAll(() => database.drop());
  return database;
}

/** Copying files is faster than the default of PostgreSQL 15 and later; earlier versions only copy files. */
async function copyStrategy(client: pg.Client): Promise<string> {
  const { rows } = await client.query<{ version: number }>(
    "SELECT current_setting('server_version_num')::int AS version",
  );
  return rows[0]!.version >= 150_000 ? 'STRATEGY file_copy' : '';
}

function urlOf(database: string): string {
  const url = new URL(variable('TEST_POSTGRES_URL'));
  url.pathname = `/${database}`;
  return url.href;
}

function variable(name: string): string {
  const value = process.env[name];
  if (value === undefined) {
    throw new Error(`${name} is not set. Run the tests with Jest, whose global setup starts PostgreSQL.`);
  }
  return value;
}

async function asSuperuser(work: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client(variable('TEST_POSTGRES_URL'));
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}
