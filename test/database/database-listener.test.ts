import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadConfig } from '../../src/config/config.js';
import { DatabaseListener } from '../../src/database/database-listener.js';
import { Metrics } from '../../src/metrics/metrics.js';
import { TcpProxy } from '../helpers/tcp-proxy.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';

const folder = useTemporaryFolder('listener');
let database: TestDatabase;
let proxy: TcpProxy;
let listener: DatabaseListener;
let metrics: Metrics;
let messages: string[];
let connections: number;

beforeEach(async () => {
  database = await createTestDatabase();
  proxy = await TcpProxy.start(database.url);
  metrics = new Metrics();
  listener = new DatabaseListener(loadConfig({ DATABASE_URL: proxy.urlFor(database.url) }), metrics);
  [messages, connections] = [[], 0];
  listener.on('news', (payload) => messages.push(payload));
  listener.onConnected = () => connections++;
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

async function isConnected(): Promise<boolean> {
  return (await metrics.registry.metrics()).includes('petstore_listener_connected 1\n');
}

describe('DatabaseListener', () => {
  it('emits the messages of a channel after it has connected', async () => {
    expect(connections).toBe(1);
    await notify('one');
    await waitFor(() => messages.length === 1, 'the message arrives');
    expect([messages, connections, await isConnected()]).toEqual([['one'], 1, true]);
  });

  it('listens before it reports that it has connected', async () => {
    listener.onConnected = () => {
      // Sent by another session from this moment on.
      void notify('two');
    };
    proxy.closeConnections();
    await waitFor(() => messages.length === 1, 'the message arrives');
    expect(messages).toEqual(['two']);
    expect(await metrics.registry.metrics()).toContain('petstore_recoveries_total{dependency="database"} 1\n');
  });

  it('reconnects with a file of its URL that was read before while it is missing', async () => {
    const file = join(folder, 'ca.crt');
    writeFileSync(file, '');
    const url = `${proxy.urlFor(database.url)}?sslmode=disable&sslrootcert=${file}`;
    const other = new DatabaseListener(loadConfig({ DATABASE_URL: url }), new Metrics());
    let reconnected = false;
    await other.onApplicationBootstrap();
    other.onConnected = () => (reconnected = true);
    rmSync(file);
    proxy.closeConnections();
    await waitFor(() => reconnected, 'the listener has reconnected');
    expect(reconnected).toBe(true);
    other.onApplicationShutdown();
  });

  it('tries again until it can connect', async () => {
    proxy.rejectConnections();
    await waitFor(async () => !(await isConnected()), 'the loss is reported');
    expect(connections).toBe(1);
    proxy.restore();
    await waitFor(() => connections === 2, 'the listener has reconnected');
    expect(await isConnected()).toBe(true);
  });

  it('ends its session when it is stopped', async () => {
    listener.onApplicationShutdown();
    await waitFor(async () => (await sessions()) === 0, 'the session has ended');
    expect(proxy.connections).toBe(0);
  });

  it('opens no session after it was stopped while it was reconnecting', async () => {
    proxy.closeConnections();
    proxy.stall();
    const before = proxy.bytesFromClients;
    await waitFor(() => proxy.bytesFromClients > before, 'the listener is reconnecting');
    listener.onApplicationShutdown();
    proxy.restore();
    await waitFor(() => proxy.connections === 0, 'no connection is left');
    await waitFor(async () => (await sessions()) === 0, 'no session is left');
    expect(connections).toBe(1);
  });

  it('stops at once while the server does not respond', async () => {
    proxy.stall();
    listener.onApplicationShutdown();
    // Less than the server may take for a response.
    await waitFor(() => proxy.connections === 0, 'the connection is closed', { withinMs: 4_000 });
    expect(connections).toBe(1);
  });
});
