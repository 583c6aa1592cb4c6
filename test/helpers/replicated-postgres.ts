import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { PostgresServer } from '../../src/cli/embedded/postgres-server.js';
import { freePort } from './free-port.js';
import { applyMigrations } from './isolated-database.js';
import { openPool } from './open-pool.js';
import { TcpProxy } from './tcp-proxy.js';
import type { TestDatabase } from './test-database.js';
import { waitFor } from './wait-for.js';

const DATABASE = 'postgres';
/** Commits return without a wait for the disk, and the log writer passes them on to the standby within milliseconds. */
const SETTINGS = { fsync: 'off', max_prepared_transactions: '10', wal_writer_delay: '10ms' };

/** A PostgreSQL primary with a migrated database, and a streaming standby that a test can pause, stop, kill and promote. */
export class ReplicatedPostgres implements TestDatabase {
  /** A pool on the primary. */
  readonly db: pg.Pool;

  private constructor(
    private readonly folder: string,
    private readonly primary: PostgresServer,
    private readonly standbySettings: Readonly<Record<string, string>>,
    private standby: PostgresServer,
    /** The network between services and the standby. */
    readonly network: TcpProxy,
  ) {
    this.db = openPool({ connectionString: this.url, max: 5 });
  }

  /** @param settings of the standby in addition, such as `max_standby_streaming_delay` */
  static async create(settings: Readonly<Record<string, string>> = {}): Promise<ReplicatedPostgres> {
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
    const standbySettings = {
      ...SETTINGS,
      primary_conninfo: `host=${hostname} port=${port} user=${username} password=${password}`,
      wal_retrieve_retry_interval: '100ms',
      ...settings,
    };
    const standby = await PostgresServer.start({ folder: standbyFolder, settings: standbySettings });
    const network = await TcpProxy.start(standby.url(''));
    return new ReplicatedPostgres(folder, primary, standbySettings, standby, network);
  }

  /** URL of the primary. */
  get url(): string {
    return this.primary.url(DATABASE);
  }

  /** URL of the standby for services, through {@link network}; it never changes. */
  get replicaUrl(): string {
    return this.network.urlFor(this.standby.url(DATABASE));
  }

  /** URL of the standby for the test. */
  get standbyUrl(): string {
    return this.standby.url(DATABASE);
  }

  /** Runs a statement on the standby. */
  async onStandby<T extends pg.QueryResultRow>(sql: string): Promise<T[]> {
    const client = new pg.Client(this.standbyUrl);
    client.on('error', () => undefined);
    await client.connect();
    try {
      return (await client.query<T>(sql)).rows;
    } finally {
      await client.end();
    }
  }

  /** Waits until the standby shows everything that is committed on the primary. */
  async untilReplayed(): Promise<void> {
    const { rows } = await this.db.query<{ lsn: string }>('SELECT pg_current_wal_flush_lsn() AS lsn');
    await waitFor(async () => {
      const [row] = await this.onStandby<{ replayed: boolean }>(
        `SELECT pg_last_wal_replay_lsn() >= '${rows[0]!.lsn}' AS replayed`,
      );
      return row?.replayed ?? false;
    }, 'the standby has replayed the log');
  }

  /** From now on the standby shows its present state. */
  async pauseReplay(): Promise<void> {
    await this.untilReplayed();
    await this.onStandby('SELECT pg_wal_replay_pause()');
    await waitFor(async () => {
      const [row] = await this.onStandby<{ state: string }>('SELECT pg_get_wal_replay_pause_state() AS state');
      return row?.state === 'paused';
    }, 'the replay is paused');
  }

  async resumeReplay(): Promise<void> {
    await this.onStandby('SELECT pg_wal_replay_resume()');
  }

  /** Makes the standby a primary of its own; its sessions continue. */
  async promote(): Promise<void> {
    await this.onStandby('SELECT pg_promote()');
  }

  /** Shuts the standby down in fast mode. */
  async stopStandby(): Promise<void> {
    await this.standby.stop();
  }

  /** Kills the standby's postmaster; its backends end by themselves. */
  killStandby(): void {
    const { pid } = this.standby;
    if (pid === undefined) {
      throw new Error('The standby does not run.');
    }
    process.kill(pid, 'SIGKILL');
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

  async startStandby(): Promise<void> {
    const folder = join(this.folder, 'standby');
    this.standby = await PostgresServer.start({ folder, settings: this.standbySettings });
    this.network.retarget(this.standby.url(''));
  }

  async drop(): Promise<void> {
    await this.db.end();
    await this.network.close();
    await this.standby.stop();
    await this.primary.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
