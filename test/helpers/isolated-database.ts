import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type pg from 'pg';
import { PostgresServer } from '../../src/cli/embedded/postgres-server.js';
import { PROJECT_ROOT } from '../../src/common/project-root.js';
import { openPool } from './open-pool.js';
import type { TestDatabase } from './test-database.js';

const MIGRATIONS = join(PROJECT_ROOT, 'prisma', 'migrations');

/**
 * Creates a migrated database on a dedicated PostgreSQL server: the sessions of other test files do not appear in its
 * `pg_stat_activity`, and autovacuum is off.
 */
export async function createIsolatedDatabase(): Promise<TestDatabase> {
  const folder = mkdtempSync(join(tmpdir(), 'petstore-quiet-'));
  const server = await PostgresServer.start({
    folder,
    settings: { fsync: 'off', autovacuum: 'off' },
    programs: process.env.TEST_POSTGRES_PROGRAMS,
  });
  const url = server.url('postgres');
  const db = openPool({ connectionString: url, max: 5 });
  await applyMigrations(db);
  return {
    url,
    db,
    drop: async () => {
      await db.end();
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Runs the SQL of every migration on an empty database. */
export async function applyMigrations(db: pg.Pool): Promise<void> {
  for (const entry of readdirSync(MIGRATIONS, { withFileTypes: true })) {
    if (entry.isDirectory()) {
      await db.query(readFileSync(join(MIGRATIONS, entry.name, 'migration.sql'), 'utf8'));
    }
  }
}
