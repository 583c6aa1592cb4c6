import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { PostgresServer } from '../../src/embedded/postgres-server.js';
import { applyMigrations } from './isolated-database.js';
import { TcpProxy } from './tcp-proxy.js';

const DATABASE = 'petstore';

/**
 * A PostgreSQL of the test's own that can be stopped, crashed and started again, with a migrated database. Its address
 * stays the same throughout, because clients come by way of a proxy. Commits are durable as far as the process can die.
 */
export class FailingPostgres {
  private constructor(
    private readonly folder: string,
    private readonly settings: Readonly<Record<string, string>>,
    private server: PostgresServer,
    /** The way of whoever arranges and checks rows, which never fails by itself. */
    private readonly testProxy: TcpProxy,
    /** The network between the services and the server. */
    readonly network: TcpProxy,
  ) {}

  /** @param inside the folder to keep it in, for instance that of a disk of its own */
  static async create(settings: Readonly<Record<string, string>> = {}, inside = tmpdir()): Promise<FailingPostgres> {
    const folder = mkdtempSync(join(inside, 'petstore-faults-'));
    const server = await PostgresServer.start({ folder, settings: { fsync: 'off', ...settings } });
    await server.ensureDatabase(DATABASE);
    const [door, network] = [await TcpProxy.start(server.url('')), await TcpProxy.start(server.url(''))];
    const postgres = new FailingPostgres(folder, settings, server, door, network);
    const db = new pg.Pool({ connectionString: postgres.url });
    await applyMigrations(db);
    await db.end();
    return postgres;
  }

  /** For tests. */
  get url(): string {
    return this.testProxy.urlFor(this.server.url(DATABASE));
  }

  /** For services. */
  get serviceUrl(): string {
    return this.network.urlFor(this.server.url(DATABASE));
  }

  /** Connections for a test, whose loss fails what they were used for and nothing else. */
  pool(max: number): pg.Pool {
    const pool = new pg.Pool({ connectionString: this.url, max, connectionTimeoutMillis: 5_000 });
    pool.on('error', () => undefined);
    pool.on('connect', (client) => client.on('error', () => undefined));
    return pool;
  }

  /** Runs one statement on a connection of its own. */
  async run(sql: string): Promise<pg.QueryResult> {
    const client = new pg.Client({ connectionString: this.url, connectionTimeoutMillis: 5_000 });
    client.on('error', () => undefined);
    await client.connect();
    try {
      return await client.query(sql);
    } finally {
      await client.end();
    }
  }

  /** Shuts it down as an operator does: sessions are ended, what they were at is rolled back. */
  async stop(): Promise<void> {
    await this.server.stop();
  }

  /** Whether it has ended, told to or not. */
  get hasEnded(): boolean {
    try {
      process.kill(this.server.pid ?? 0, 0);
      return false;
    } catch {
      return true;
    }
  }

  /** Starts it after {@link stop}, or after it has ended by itself. */
  async start(): Promise<void> {
    this.server = await PostgresServer.start({ folder: this.folder, settings: { fsync: 'off', ...this.settings } });
    this.testProxy.retarget(this.server.url(''));
    this.network.retarget(this.server.url(''));
  }

  /** Kills a process of it, whereupon PostgreSQL throws everybody out and recovers from its log. */
  async crash(): Promise<void> {
    const client = new pg.Client(this.url);
    client.on('error', () => undefined);
    await client.connect();
    const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    process.kill(rows[0]!.pid, 'SIGKILL');
    await client.end().catch(() => undefined);
  }

  /** Ends it for good. */
  async discard(): Promise<void> {
    await this.network.close();
    await this.testProxy.close();
    await this.server.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
