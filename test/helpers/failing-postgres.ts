import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { PostgresServer, type PostgresServerOptions } from '../../src/cli/embedded/postgres-server.js';
import { applyMigrations } from './isolated-database.js';
import { openPool } from './open-pool.js';
import { TcpProxy } from './tcp-proxy.js';

const DATABASE = 'postgres';

/**
 * A PostgreSQL server with a migrated database that a test can stop, crash and restart. Services connect through a proxy. Commits
 * survive a crash of the process, not of the machine.
 */
export class FailingPostgres {
  private constructor(
    private readonly folder: string,
    private readonly options: PostgresServerOptions,
    private server: PostgresServer,
    /** The network between services and server. */
    readonly network: TcpProxy,
  ) {}

  static async create(settings: Readonly<Record<string, string>> = {}): Promise<FailingPostgres> {
    const folder = mkdtempSync(join(tmpdir(), 'petstore-faults-'));
    const programs = process.env.TEST_POSTGRES_PROGRAMS;
    const options = { folder, settings: { fsync: 'off', ...settings }, programs };
    const server = await PostgresServer.start(options);
    const postgres = new FailingPostgres(folder, options, server, await TcpProxy.start(server.url('')));
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
    return this.server.url(DATABASE);
  }

  /** URL for the services under test. */
  get serviceUrl(): string {
    return this.network.urlFor(this.url);
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

  /** Starts the server after {@link stop}, on the same port. */
  async start(): Promise<void> {
    this.server = await PostgresServer.start({ ...this.options, port: Number(new URL(this.url).port) });
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
    await this.server.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
