import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
// From the build: Jest runs this file outside its module system, and `npm test` builds first.
import { migrate } from '../../dist/cli/embedded/migrate.js';
import { PostgresServer } from '../../dist/cli/embedded/postgres-server.js';

/** Durability is off, because the data is deleted after the run. All other settings are PostgreSQL's defaults. */
const THROWAWAY = {
  fsync: 'off',
  full_page_writes: 'off',
  synchronous_commit: 'off',
  max_connections: '300',
  max_prepared_transactions: '10',
};

/**
 * One PostgreSQL for the whole run, with one migrated database that every test file clones. TEST_POSTGRES_PROGRAMS is the
 * `native` folder of another version's package.
 */
export default async function globalSetup() {
  // Otherwise each Prisma command starts a process that asks for updates.
  process.env.CHECKPOINT_DISABLE = '1';
  const folder = mkdtempSync(join(tmpdir(), 'petstore-test-'));
  const server = await PostgresServer.start({
    folder,
    settings: THROWAWAY,
    programs: process.env.TEST_POSTGRES_PROGRAMS,
  });
  globalThis.testPostgres = { server, folder };
  process.env.TEST_POSTGRES_URL = server.url('postgres');
  process.env.TEST_TEMPLATE_DATABASE = 'petstore_template';
  // Up to PostgreSQL 14 everybody may create in the schema of a new database; an installation ends that.
  for (const database of ['template1', 'postgres']) {
    await execute(server.url(database), 'REVOKE CREATE ON SCHEMA public FROM PUBLIC');
  }
  await execute(server.url('postgres'), `CREATE DATABASE ${process.env.TEST_TEMPLATE_DATABASE}`);
  await migrate(server.url(process.env.TEST_TEMPLATE_DATABASE));
}

/** @param {string} url @param {string} statement */
async function execute(url, statement) {
  const client = new pg.Client(url);
  await client.connect();
  await client.query(statement);
  await client.end();
}
