import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createTestDatabase } from '../helpers/test-database.js';

const run = promisify(execFile);
const ROOT = join(__dirname, '..', '..');
const SERVICE_ROLE_MIGRATION = join(ROOT, 'prisma', 'migrations', '20261121000001_service_role', 'migration.sql');

jest.setTimeout(60_000);

describe('migrations', () => {
  it('produce exactly the schema of schema.prisma', async () => {
    const { stdout } = await run(process.execPath, [join(ROOT, 'prisma', 'check-migrations.mjs')], {
      cwd: ROOT,
      env: { ...process.env, DATABASE_URL: process.env.TEST_POSTGRES_URL },
    });
    expect(stdout).toMatch(/migrations produce/i);
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
