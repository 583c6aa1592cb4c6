import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type pg from 'pg';
import { PostgresServer, type PostgresServerOptions } from '../../src/cli/embedded/postgres-server.js';
import { PROJECT_ROOT } from '../../src/common/project-root.js';
import { openPool } from './open-pool.js';
import type { TestDatabase } from './test-database.js';

const MIGRATIONS = join(PROJECT_ROOT, 'prisma', 'migrations');

/**
 * A PostgreSQL server with a migrated database that a test can stop and start. Commits survive a crash of the process, not of
 * the machine.
 */
export class OwnPostgres implements TestDatabase {
  readonly url: string;
  readonly db: pg.Pool;

  private constructor(
    private readonly options: PostgresServerOptions,
    private server: PostgresServer,
  ) {
    this.url = server.url('postgres');
    this.db = openPool({ connectionString: this.url, max: 20, connectionTimeoutMillis: 5_000 });
  }

  static async create(settings: Readonly<Record<string, string>> = {}): Promise<OwnPostgres> {
    const folder = mkdtempSync(join(tmpdir(), 'petstore-postgres-'));
    const programs = process.env.TEST_POSTGRES_PROGRAMS;
    const options = { folder, settings: { fsync: 'off', ...settings }, programs };
    const postgres = new OwnPostgres(options, await PostgresServer.start(options));
    await applyMigrations(postgres.db);
    return postgres;
  }

  /** Shuts the server down in fast mode: sessions end, open transactions are rolled back. */
  async stop(): Promise<void> {
    await this.server.stop();
  }

  /** Starts the server after {@link stop}, on the same port. */
  async start(): Promise<void> {
    this.server = await PostgresServer.start({ ...this.options, port: Number(new URL(this.url).port) });
  }

  /** Stops the server and deletes its data. */
  async drop(): Promise<void> {
    await this.db.end();
    await this.server.stop();
    rmSync(this.options.folder, { recursive: true, force: true });
  }
}

/** Runs the SQL of every migration on an empty database. */
export async function applyMigrations(db: pg.Pool): Promise<void> {
  for (const entry of readdirSync(MIGRATIONS, { withFileTypes: true })) {
    if (entry.isDirectory()) {
      await db.query(readFileSync(join(MIGRATIONS, entry.name, 'migration.sql'), 'utf8'));
    }
  }
}
