import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { migrate } from '../../src/embedded/migrate.js';
import { createTestDatabase } from '../helpers/test-database.js';

const run = promisify(execFile);
const ROOT = join(__dirname, '..', '..');
const SERVICE_ROLE_MIGRATION = join(ROOT, 'prisma', 'migrations', '20261122000003_service_role', 'migration.sql');

jest.setTimeout(60_000);

describe('migrations', () => {
  it('produce exactly the schema of schema.prisma', async () => {
    const { stdout } = await run(process.execPath, [join(ROOT, 'prisma', 'check-migrations.mjs')], {
      cwd: ROOT,
      env: { ...process.env, DATABASE_URL: process.env.TEST_POSTGRES_URL },
    });
    expect(stdout).toMatch(/migrations produce/i);
  });

  it('create the tables in the schema public when the defaults of the database differ', async () => {
    const database = await createTestDatabase();
    const name = `${new URL(database.url).pathname.slice(1)}_elsewhere`;
    const other = new URL(database.url);
    other.pathname = `/${name}`;
    await database.db.query(`CREATE DATABASE ${name}`);
    const client = new pg.Client(other.href);
    try {
      await client.connect();
      await client.query(`
        CREATE SCHEMA elsewhere;
        ALTER DATABASE ${name} SET search_path = elsewhere, public;
        ALTER DATABASE ${name} SET default_transaction_isolation = 'repeatable read'`);
      await migrate(other.href);
      const { rows } = await client.query<{ tables: string }>(`
        SELECT string_agg(format('%I.%I', schemaname, tablename), ' ' ORDER BY tablename) AS tables
        FROM pg_tables WHERE schemaname IN ('public', 'elsewhere')`);
      expect(rows[0]?.tables).toBe(
        'public._prisma_migrations public.api_key_usage public.api_keys public.order_list_changes public.orders',
      );
      await client.query('INSERT INTO public.orders (pet_id, quantity) VALUES (1, 1)');
    } finally {
      await client.end();
      await database.db.query(`DROP DATABASE ${name} WITH (FORCE)`);
      await database.drop();
    }
  });

  it('use an existing service role when the owner may not create roles', async () => {
    const database = await createTestDatabase();
    const db = await database.db.connect();
    const notices: string[] = [];
    db.on('notice', ({ message }) => notices.push(String(message)));
    try {
      await db.query(`
        BEGIN;
        CREATE ROLE test_migration_owner;
        ALTER SCHEMA public OWNER TO test_migration_owner;
        ALTER TABLE orders OWNER TO test_migration_owner;
        ALTER TABLE api_keys OWNER TO test_migration_owner;
        ALTER TABLE order_list_changes OWNER TO test_migration_owner;
        ALTER TABLE api_key_usage OWNER TO test_migration_owner;
        ALTER FUNCTION compact_order_list_changes(bigint) OWNER TO test_migration_owner;
        ALTER FUNCTION note_order_list_blocks(bigint, bigint) OWNER TO test_migration_owner;
        SET LOCAL ROLE test_migration_owner`);
      await db.query(readFileSync(SERVICE_ROLE_MIGRATION, 'utf8'));
      expect(notices).toEqual([]);
    } finally {
      await db.query('ROLLBACK');
      db.release();
      await database.drop();
    }
  });
});
