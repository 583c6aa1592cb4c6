import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import pg from 'pg';
import { PROJECT_ROOT } from '../common/project-root.js';
import { runDetached } from './run-detached.js';

const MIGRATIONS = join(PROJECT_ROOT, 'prisma', 'migrations');

/**
 * Creates a database unless it exists and applies the pending migrations with `prisma migrate deploy`.
 * @throws {Error} with the output of Prisma
 */
export async function migrate(databaseUrl: string): Promise<void> {
  const prisma = createRequire(import.meta.url).resolve('prisma/build/index.js');
  await runDetached([process.execPath, prisma, 'migrate', 'deploy'], {
    cwd: PROJECT_ROOT,
    env: { ...process.env, DATABASE_URL: databaseUrl, DATABASE_DIRECT_URL: '' },
  }).catch((error: unknown) => {
    throw new Error(`Cannot apply the migrations:\n${(error as Error).message}`, { cause: error });
  });
}

/** Whether exactly the migrations of this version are applied, unchanged: then starting Prisma takes seconds for nothing. */
export async function isMigrated(databaseUrl: string): Promise<boolean> {
  const client = new pg.Client(databaseUrl);
  try {
    await client.connect();
    const { rows } = await client.query<{ migration: string }>(
      `SELECT migration_name || ' ' || checksum AS migration FROM _prisma_migrations
       WHERE finished_at IS NOT NULL AND rolled_back_at IS NULL`,
    );
    const applied = rows.map(({ migration }) => migration).sort();
    return applied.join() === expectedMigrations().sort().join();
  } catch {
    // The database or Prisma's table does not exist yet; any other problem is Prisma's to report.
    return false;
  } finally {
    await client.end();
  }
}

/** Names and checksums, as Prisma records them. */
function expectedMigrations(): string[] {
  return readdirSync(MIGRATIONS, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => {
      const sql = readFileSync(join(MIGRATIONS, name, 'migration.sql'));
      return `${name} ${createHash('sha256').update(sql).digest('hex')}`;
    });
}
