import { createHash, randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PROJECT_ROOT } from '../../common/project-root.js';
import { openClient } from '../../database/open-client.js';
import { sessionSettings } from '../../database/session-settings.js';

const MIGRATIONS = join(PROJECT_ROOT, 'prisma', 'migrations');

/** Prisma's bookkeeping, as `prisma migrate deploy` creates it. */
const CREATE_RECORDS = `
  CREATE TABLE IF NOT EXISTS _prisma_migrations (
    id varchar(36) PRIMARY KEY NOT NULL, checksum varchar(64) NOT NULL, finished_at timestamptz, migration_name varchar(255) NOT NULL,
    logs text, rolled_back_at timestamptz, started_at timestamptz NOT NULL DEFAULT now(), applied_steps_count integer NOT NULL DEFAULT 0)`;

const SELECT_APPLIED = `SELECT migration_name AS name FROM _prisma_migrations WHERE finished_at IS NOT NULL AND rolled_back_at IS NULL`;

/**
 * Applies the pending migrations, as `prisma migrate deploy` does, but each together with its record in one transaction: it
 * can be interrupted at any time. It also spares the start of Prisma.
 */
export async function migrate(databaseUrl: string): Promise<void> {
  const client = await openClient(databaseUrl);
  try {
    await client.query(`${sessionSettings()}; ${CREATE_RECORDS}`);
    const { rows } = await client.query<{ name: string }>(SELECT_APPLIED);
    const applied = new Set(rows.map(({ name }) => name));
    const folders = readdirSync(MIGRATIONS, { withFileTypes: true }).filter((entry) => entry.isDirectory());
    const pending = folders.map(({ name }) => name).filter((name) => !applied.has(name));
    for (const name of pending.sort()) {
      const sql = readFileSync(join(MIGRATIONS, name, 'migration.sql'), 'utf8');
      const checksum = createHash('sha256').update(sql).digest('hex');
      // Several statements in one query are one transaction.
      await client.query(`${sql}
        ; INSERT INTO public._prisma_migrations (id, checksum, migration_name, finished_at, applied_steps_count)
        VALUES ('${randomUUID()}', '${checksum}', '${name}', now(), 1)`);
    }
  } finally {
    await client.end();
  }
}
