import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PostgresServer } from '../../src/cli/embedded/postgres-server.js';
import { listOrders } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { applyMigrations } from '../helpers/isolated-database.js';
import { openPool } from '../helpers/open-pool.js';
import type { TestDatabase } from '../helpers/test-database.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { observe } from '../models/list-writer.js';

const DATABASE = 'postgres';
/** Transactions that are larger than the work memory are sent before they commit. */
const SETTINGS = {
  fsync: 'off',
  wal_level: 'logical',
  logical_decoding_work_mem: '64kB',
  wal_retrieve_retry_interval: '100ms',
};

const folder = mkdtempSync(join(tmpdir(), 'petstore-logical-'));
let servers: PostgresServer[];
let publisher: TestDatabase;
let subscriber: TestDatabase;
let service: TestService;
let key: string;

beforeAll(async () => {
  servers = await Promise.all(
    ['publisher', 'subscriber'].map((name) => PostgresServer.start({ folder: join(folder, name), settings: SETTINGS })),
  );
  [publisher, subscriber] = (await Promise.all(servers.map(migrated))) as [TestDatabase, TestDatabase];
  await publisher.db.query('CREATE PUBLICATION orders FOR TABLE orders, marks');
  ({ key } = await insertKey(subscriber.db));
  service = await startTestService({ database: subscriber });
});
afterAll(async () => {
  await service.stop();
  await subscriber.db.query('DROP SUBSCRIPTION IF EXISTS all_orders');
  await subscriber.drop();
  await publisher.drop();
  await Promise.all(servers.map((server) => server.stop()));
  rmSync(folder, { recursive: true, force: true });
});

async function migrated(server: PostgresServer): Promise<TestDatabase> {
  const url = server.url(DATABASE);
  const db = openPool({ connectionString: url, max: 5 });
  await applyMigrations(db);
  await db.query('CREATE TABLE marks (n serial)');
  return { url, db, drop: () => db.end() };
}

/** Copies the orders of the publisher to the subscriber, and follows their changes. */
async function subscribe(options: string): Promise<void> {
  const { username, password, hostname, port } = new URL(publisher.url);
  const connection = `host=${hostname} port=${port} user=${username} password=${password} dbname=${DATABASE}`;
  await subscriber.db.query(
    `CREATE SUBSCRIPTION all_orders CONNECTION '${connection}' PUBLICATION orders WITH (${options})`,
  );
}

/** Waits until the subscriber has everything that is committed on the publisher. */
async function untilReplicated(): Promise<void> {
  await waitFor(
    async () => {
      const { rows } = await subscriber.db.query<{ ready: boolean }>(
        "SELECT count(*) > 0 AND bool_and(srsubstate = 'r') AS ready FROM pg_subscription_rel",
      );
      return rows[0]!.ready;
    },
    'the tables are copied',
    { withinMs: 60_000 },
  );
  // Transactions are applied in the order of their commits.
  const { rows } = await publisher.db.query<{ n: number }>('INSERT INTO marks DEFAULT VALUES RETURNING n');
  await waitFor(
    async () => (await subscriber.db.query('SELECT FROM marks WHERE n = $1', [rows[0]!.n])).rowCount === 1,
    'the subscriber has applied all changes',
    { withinMs: 60_000 },
  );
}

/** Checks that the service on the subscriber serves the orders of the publisher, with the version of the subscriber. */
async function listedLikePublished(): Promise<string> {
  const published = await observe(publisher.url);
  const replicated = await observe(subscriber.url);
  const response = await listOrders(service.baseUrl, key);
  expect(response.status).toBe(200);
  const etag = response.headers.get('etag') ?? '';
  expect(etag).toBe(replicated.etag);
  expect((await response.text()) === published.text).toBe(true);
  return etag;
}

// Large transactions are applied before they commit.
describe('a service on a subscriber with streaming = parallel', () => {
  it('the initial copy ends: the list has its orders', async () => {
    await publisher.db.query(
      'INSERT INTO orders (id, pet_id, quantity) SELECT n, n, 1 FROM generate_series(1, 20000) AS n',
    );
    const empty = await observe(subscriber.url);
    await subscribe('streaming = parallel');
    await untilReplicated();
    expect(await listedLikePublished()).not.toBe(empty.etag);
  });

  it.each([
    ['the first order of a block is inserted', 'INSERT INTO orders (id, pet_id, quantity) VALUES (-5000000000, 1, 1)'],
    ['an order gets an id in another block', 'UPDATE orders SET id = 5000000000 WHERE id = -5000000000'],
    ['the only order of a block is deleted', 'DELETE FROM orders WHERE id = 5000000000'],
    // Larger than what is kept in memory before it is sent.
    ['every order is updated', 'UPDATE orders SET quantity = quantity + 1'],
    ['the table is truncated', 'TRUNCATE orders'],
  ])('%s: the list changes', async (_what, statements) => {
    const before = await listedLikePublished();
    await publisher.db.query(statements);
    await untilReplicated();
    expect(await listedLikePublished()).not.toBe(before);
  });
});
