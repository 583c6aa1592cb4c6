import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { PostgresServer } from '../../src/cli/embedded/postgres-server.js';
import { freePort } from './free-port.js';
import { applyMigrations } from './isolated-database.js';
import { openPool } from './open-pool.js';
import type { TestDatabase } from './test-database.js';
import { waitFor } from './wait-for.js';

const DATABASE = 'postgres';
const SETTINGS = { fsync: 'off' };

/** A PostgreSQL primary with a migrated database, and a streaming standby that a test can promote. */
export class ReplicatedPostgres implements TestDatabase {
  /** A pool on the primary. */
  readonly db: pg.Pool;

  private constructor(
    private readonly folder: string,
    private readonly primary: PostgresServer,
    private readonly standby: PostgresServer,
  ) {
    this.db = openPool({ connectionString: this.url, max: 5 });
  }

  static async create(): Promise<ReplicatedPostgres> {
    const folder = mkdtempSync(join(tmpdir(), 'petstore-replicated-'));
    const [primaryFolder, standbyFolder] = [join(folder, 'primary'), join(folder, 'standby')];
    const port = await freePort();
    const startPrimary = (): Promise<PostgresServer> =>
      PostgresServer.start({ folder: primaryFolder, settings: SETTINGS, port });
    const original = await startPrimary();
    const db = openPool({ connectionString: original.url(DATABASE), max: 5 });
    await applyMigrations(db);
    await db.end();
    await original.stop();
    // A copy of a stopped server is a base backup. `cp` keeps the owner of the files.
    execFileSync('cp', ['--archive', primaryFolder, standbyFolder]);
    writeFileSync(join(standbyFolder, 'cluster', 'data', 'standby.signal'), '');
    const primary = await startPrimary();
    const { username, password, hostname } = new URL(primary.url(DATABASE));
    const settings = {
      ...SETTINGS,
      primary_conninfo: `host=${hostname} port=${port} user=${username} password=${password}`,
      wal_retrieve_retry_interval: '100ms',
    };
    const standby = await PostgresServer.start({ folder: standbyFolder, settings });
    return new ReplicatedPostgres(folder, primary, standby);
  }

  /** URL of the primary. */
  get url(): string {
    return this.primary.url(DATABASE);
  }

  /** URL of the standby. */
  get standbyUrl(): string {
    return this.standby.url(DATABASE);
  }

  /** Makes the standby a primary of its own; its sessions continue. */
  async promote(): Promise<void> {
    const client = new pg.Client(this.standbyUrl);
    await client.connect();
    await client.query('SELECT pg_promote()');
    await client.end();
  }

  /** From now on each commit waits until the standby has it. */
  async makeSynchronous(): Promise<void> {
    await this.db.query(`ALTER SYSTEM SET synchronous_standby_names = '*'`);
    await this.db.query('SELECT pg_reload_conf()');
    await waitFor(async () => {
      const { rowCount } = await this.db.query(`SELECT FROM pg_stat_replication WHERE sync_state = 'sync'`);
      return rowCount === 1;
    }, 'the standby is synchronous');
  }

  /** Kills the primary's postmaster; its backends end by themselves. */
  killPrimary(): void {
    const { pid } = this.primary;
    if (pid === undefined) {
      throw new Error('The primary does not run.');
    }
    process.kill(pid, 'SIGKILL');
  }

  async drop(): Promise<void> {
    await this.db.end();
    await this.standby.stop();
    await this.primary.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
