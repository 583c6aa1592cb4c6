import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { loadConfig } from '../../src/config/config.js';
import { DatabaseListener } from '../../src/database/database-listener.js';
import { Metrics } from '../../src/metrics/metrics.js';
import { TcpProxy } from '../helpers/tcp-proxy.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';

let database: TestDatabase;
let proxy: TcpProxy;
let listener: DatabaseListener;
let metrics: Metrics;
let messages: string[];
let synchronizations: number;
let losses: number;
let statement: string;
let failedQueries: string[];

beforeEach(async () => {
  database = await createTestDatabase();
  proxy = await TcpProxy.start(database.url);
  metrics = new Metrics();
  listener = new DatabaseListener(loadConfig({ DATABASE_URL: proxy.urlFor(database.url) }), metrics);
  [messages, synchronizations, losses] = [[], 0, 0];
  [statement, failedQueries] = ['SELECT 1', []];
  listener.on('news', (payload) => messages.push(payload));
  listener.onLost = () => losses++;
  listener.synchronize = async (query) => {
    await query(statement).catch((error: unknown) => {
      failedQueries.push((error as Error).message);
      throw error;
    });
    synchronizations++;
  };
  await listener.onApplicationBootstrap();
});
afterEach(async () => {
  listener.onApplicationShutdown();
  await proxy.close();
  await database.drop();
});

async function sessions(): Promise<number> {
  const { rowCount } = await database.db.query(
    "SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'petstore-listener'",
  );
  return rowCount ?? 0;
}

async function notify(payload: string): Promise<void> {
  await database.db.query("SELECT pg_notify('news', $1)", [payload]);
}

describe('DatabaseListener', () => {
  it('emits the messages of a channel, after it has synchronized', async () => {
    expect(synchronizations).toBe(1);
    await notify('one');
    await waitFor(() => messages.length === 1, 'the message arrives');
    expect([messages, losses]).toEqual([['one'], 0]);
  });

  it('reports a lost connection, reconnects and synchronizes', async () => {
    proxy.closeConnections();
    await waitFor(() => losses === 1, 'the loss is reported');
    const before = synchronizations;
    await waitFor(() => synchronizations > before, 'the listener has reconnected');
    await notify('two');
    await waitFor(() => messages.length === 1, 'the message arrives');
    expect(messages).toEqual(['two']);
    const exported = await metrics.registry.metrics();
    expect(exported).toContain('petstore_recoveries_total{dependency="database"} 1\n');
    expect(exported).toContain('petstore_listener_connected 1\n');
  });

  it('reconnects with a file of its URL that was read before while it is missing', async () => {
    const file = join(mkdtempSync(join(tmpdir(), 'petstore-listener-')), 'ca.crt');
    writeFileSync(file, '');
    const url = `${proxy.urlFor(database.url)}?sslmode=disable&sslrootcert=${file}`;
    const synchronize = jest.fn(() => Promise.resolve());
    const ownMetrics = new Metrics();
    const other = new DatabaseListener(loadConfig({ DATABASE_URL: url }), ownMetrics);
    other.synchronize = synchronize;
    await other.onApplicationBootstrap();
    rmSync(file);
    const before = synchronize.mock.calls.length;
    proxy.closeConnections();
    const recovered = 'petstore_recoveries_total{dependency="database"} 1\n';
    await waitFor(
      async () => (await ownMetrics.registry.metrics()).includes(recovered),
      'the listener has reconnected',
    );
    expect(synchronize.mock.calls.length).toBeGreaterThan(before);
    other.onApplicationShutdown();
  });

  it('reconnects when it cannot synchronize', async () => {
    statement = 'SELECT 1/0';
    await waitFor(() => losses >= 2, 'the next attempt fails too');
    expect(await metrics.registry.metrics()).toContain('petstore_listener_connected 0\n');
    statement = 'SELECT 1';
    const before = synchronizations;
    await waitFor(() => synchronizations > before, 'the listener has reconnected');
    expect(await metrics.registry.metrics()).toContain('petstore_listener_connected 1\n');
  });

  it('reconnects when its server becomes read-only: another one may have replaced it', async () => {
    statement = 'SET default_transaction_read_only = on';
    await waitFor(() => synchronizations === 2, 'the session is read-only from now on');
    statement = 'SELECT 1';
    await waitFor(() => losses === 1, 'the loss is reported');
    await waitFor(() => synchronizations === 3, 'the listener has reconnected');
    expect(failedQueries).toEqual([]);
  });

  it('returns no rows of a connection that is lost with them', async () => {
    statement = 'SELECT 2';
    const { query } = pg.Client.prototype as unknown as {
      query: (this: pg.Client, text: string) => Promise<pg.QueryResult>;
    };
    jest.spyOn(pg.Client.prototype, 'query').mockImplementation(async function (this: pg.Client, text: string) {
      const result = await query.call(this, text);
      if (text === 'SELECT 2') {
        jest.restoreAllMocks();
        this.emit('error', new Error('lost'));
      }
      return result;
    } as never);
    await waitFor(() => synchronizations === 2, 'the listener has reconnected');
    expect([losses, failedQueries]).toEqual([1, ['lost']]);
  });

  it('detects a connection that died without being closed', async () => {
    proxy.stall();
    await waitFor(() => losses === 1, 'the loss is reported');
    expect(await metrics.registry.metrics()).toContain('petstore_listener_connected 0\n');
  });

  it('ends its session when it is stopped', async () => {
    listener.onApplicationShutdown();
    await waitFor(async () => (await sessions()) === 0, 'the session has ended');
    expect([proxy.connections, losses]).toEqual([0, 0]);
  });

  it('opens no session after it was stopped while it was reconnecting', async () => {
    proxy.closeConnections();
    proxy.stall();
    const before = proxy.bytesFromClients;
    await waitFor(() => proxy.bytesFromClients > before, 'the listener is reconnecting');
    listener.onApplicationShutdown();
    const synchronized = synchronizations;
    proxy.restore();
    await waitFor(() => proxy.connections === 0, 'no connection is left');
    await waitFor(async () => (await sessions()) === 0, 'no session is left');
    expect(synchronizations).toBe(synchronized);
  });

  it('stops at once while the server does not respond', async () => {
    proxy.stall();
    listener.onApplicationShutdown();
    // Less than the server may take for a response.
    await waitFor(() => proxy.connections === 0, 'the connection is closed', { withinMs: 4_000 });
    expect(losses).toBe(0);
  });
});
