import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { PostgresServer } from '../../src/cli/embedded/postgres-server.js';
import { applyMigrations } from './isolated-database.js';
import { openPool } from './open-pool.js';
import { TcpProxy } from './tcp-proxy.js';

const DATABASE = 'postgres';

/**
 * A PostgreSQL server with a migrated database that a test can stop, crash and restart. Clients connect through a proxy, so
 * its address never changes. Commits survive a crash of the process, not of the machine.
 */
export class FailingPostgres {
  private constructor(
    private readonly folder: string,
    private readonly settings: Readonly<Record<string, string>>,
    private server: PostgresServer,
    /** Connections of the test itself, which `network` does not affect. */
    private readonly testProxy: TcpProxy,
    /** The network between services and server. */
    readonly network: TcpProxy,
  ) {}

  /** @param inside parent of the data directory */
  static async create(settings: Readonly<Record<string, string>> = {}, inside = tmpdir()): Promise<FailingPostgres> {
    const folder = mkdtempSync(join(inside, 'petstore-faults-'));
    const server = await startServer(folder, settings);
    const [door, network] = [await TcpProxy.start(server.url('')), await TcpProxy.start(server.url(''))];
    const postgres = new FailingPostgres(folder, settings, server, door, network);
    const db = postgres.pool(1);
    try {
      await applyMigrations(db);
    } catch (error) {
      await postgres.discard();
      throw error;
    } finally {
      await db.end();
    }
    return postgres;
  }

  /** URL for the test's own connections. */
  get url(): string {
    return this.testProxy.urlFor(this.server.url(DATABASE));
  }

  /** URL for the services under test. */
  get serviceUrl(): string {
    return this.network.urlFor(this.server.url(DATABASE));
  }

  /** Creates a pool for the test. A lost connection fails only the query that uses it. */
  pool(max: number): pg.Pool {
    const pool = openPool({ connectionString: this.url, max, connectionTimeoutMillis: 5_000 });
    pool.on('connect', (client) => client.on('error', () => undefined));
    return pool;
  }

  /** Runs one statement on a new connection. */
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

  /** Shuts the server down in fast mode: sessions end, open transactions are rolled back. */
  async stop(): Promise<void> {
    await this.server.stop();
  }

  /** Whether the server process has exited. */
  get hasEnded(): boolean {
    return this.server.pid === undefined;
  }

  /** Starts the server after {@link stop} or an exit. */
  async start(): Promise<void> {
    this.server = await startServer(this.folder, this.settings);
    this.testProxy.retarget(this.server.url(''));
    this.network.retarget(this.server.url(''));
  }

  /** Kills a backend, so that PostgreSQL ends all sessions and recovers from its log. */
  async crash(): Promise<void> {
    const client = new pg.Client(this.url);
    client.on('error', () => undefined);
    await client.connect();
    const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    process.kill(rows[0]!.pid, 'SIGKILL');
    await client.end().catch(() => undefined);
  }

  /** Stops the server and deletes its data. */
  async discard(): Promise<void> {
    await this.network.close();
    await this.testProxy.close();
    await this.server.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

function startServer(folder: string, settings: Readonly<Record<string, string>>): Promise<PostgresServer> {
  const programs = process.env.TEST_POSTGRES_PROGRAMS;
  return PostgresServer.start({ folder, settings: { fsync: 'off', ...settings }, programs });
}
