import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PROJECT_ROOT } from '../../src/common/project-root.js';
import type { TestDatabase } from './test-database.js';

const PRISMA = join(PROJECT_ROOT, 'prisma');
const RELEASED = readFileSync(join(PRISMA, 'released-migrations.sha256'), 'utf8');
const FIRST_RELEASE = [...RELEASED.matchAll(/(\w+)\/migration\.sql/g)].slice(0, 4).map(([, name = '']) => name);

/** Applies a migration, and does not record it. */
async function applyMigration({ db }: TestDatabase, migration: string): Promise<void> {
  await db.query(readFileSync(join(PRISMA, 'migrations', migration, 'migration.sql'), 'utf8'));
}

/** Makes a test database one that release 1.0.0 has installed, without rows. */
export async function installFirstRelease(database: TestDatabase): Promise<void> {
  // What the installation of that release has recorded stays, and nothing else.
  await database.db.query(`
    DELETE FROM _prisma_migrations WHERE migration_name NOT IN ('${FIRST_RELEASE.join("', '")}');
    CREATE SCHEMA kept; ALTER TABLE _prisma_migrations SET SCHEMA kept; DROP SCHEMA public CASCADE; CREATE SCHEMA public;
    GRANT USAGE ON SCHEMA public TO PUBLIC;
    ALTER TABLE kept._prisma_migrations SET SCHEMA public; DROP SCHEMA kept`);
  for (const migration of FIRST_RELEASE) {
    await applyMigration(database, migration);
  }
}
