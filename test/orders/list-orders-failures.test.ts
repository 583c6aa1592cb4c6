import { connect, type Server } from 'node:net';
import { promisify } from 'node:util';
import { MAIN_CONNECTIONS_MAX } from '../../src/database/pools.js';
import { LIST_ROUTE } from '../../src/http/paths.js';
import { call, cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder, statusOf } from '../helpers/builders.js';
import { describeWith } from '../helpers/describe-with.js';
import { lockTable, untilLockWaits } from '../helpers/lock-waits.js';
import { StalledClient } from '../helpers/raw-http.js';
import { CURL_RECV_ERROR, StalledCurl } from '../helpers/stalled-curl.js';
import { TcpProxy } from '../helpers/tcp-proxy.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { requestText } from '../helpers/wire.js';

/** 113 bytes each in JSON: in all 13 MB, while the system keeps 10 MB at most for a connection. */
const ORDERS = 120_000;

/** Lists whose rows the service does not read: PostgreSQL cannot continue to send them, or has sent all rows of a COPY. */
const HELD_LISTS = `
  SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'COPY %'
  AND (wait_event = 'ClientWrite' OR state = 'idle in transaction')`;

/** Above those orders. */
let lastId = 10_000_000;
const nextId = (): string => String(++lastId);

const database = useTestDatabase();
let service: TestService;
let key: string;

beforeAll(async () => {
  await database.db.query(
    `INSERT INTO orders (pet_id, quantity, ship_date)
     SELECT 9000000000000000000 + n, 2147483647, now() FROM generate_series(1, $1) AS n`,
    [ORDERS],
  );
  ({ key } = await insertKey(database.db));
});
afterEach(() => service.stop());

async function listConnectionsInUse(of = service): Promise<number> {
  return (await ServiceMetrics.of(of.app)).sum('petstore_pool_connections', 'pool="list",state="used"');
}

async function listsThatEnded(end: 'disconnected' | 'cut'): Promise<number> {
  return (await ServiceMetrics.of(service.app)).sum('petstore_lists_total', `end="${end}"`);
}

async function untilNoListRuns(on = service): Promise<void> {
  await waitFor(async () => (await listConnectionsInUse(on)) === 0, 'no list is running');
}

async function untilHeld(readers: number): Promise<void> {
  const isHeld = async (): Promise<boolean> => (await database.db.query(HELD_LISTS)).rowCount === readers;
  await waitFor(isHeld, `${readers} lists wait for clients`);
}

/** A client that disconnects without a response, after `work`. */
async function requestAndLeave(work: () => Promise<unknown>): Promise<void> {
  const leaving = new AbortController();
  const headers = { Authorization: `Bearer ${key}` };
  const gone = fetch(`${service.baseUrl}/v1/store/orders`, { headers, signal: leaving.signal });
  await work();
  leaving.abort();
  await expect(gone).rejects.toThrow();
}

async function expectWholeList(encoding = 'identity', caller = key, from = service): Promise<void> {
  const response = await listOrders(from.baseUrl, caller, { 'Accept-Encoding': encoding });
  expect(response.status).toBe(200);
  const bytes = Buffer.from(await response.arrayBuffer());
  expect(bytes.length).toBeGreaterThan(ORDERS * 80);
  expect(bytes.subarray(-6).toString()).toMatch(/e\}\]$/);
}

describe('a list that is interrupted', () => {
  beforeEach(async () => {
    const environment = { LIST_CONCURRENCY: '1', LIST_CACHE_MB: '0', CANCEL_LOCK_TIMEOUT_MS: '30000' };
    service = await startTestService({ database, environment });
  });

  it('ends the scan and releases its slot when the client disconnects', async () => {
    const reader = await StalledClient.open(service.port, key);
    await untilHeld(1);
    expect(await listConnectionsInUse()).toBe(1);
    reader.disconnect();
    await untilNoListRuns();
    await untilHeld(0);
    await expectWholeList();
  });

  it('releases its slot when the client disconnects before the first row', async () => {
    const unlock = await lockTable(database.db, 'orders');
    await requestAndLeave(() =>
      waitFor(async () => (await listConnectionsInUse()) === 1, 'the list has its connection'),
    );
    await unlock();
    await untilNoListRuns();
    await expectWholeList();
  });

  it.each(['gzip', 'identity'])(
    'ends when its connection was reset before it began, also behind others (%s)',
    async (encoding) => {
      const unlock = await lockTable(database.db, 'order_list_changes');
      const client = connect(service.port, '127.0.0.1');
      client.write(requestText('GET', LIST_ROUTE, { key, headers: [`Accept-Encoding: ${encoding}`] }).repeat(8));
      await untilLockWaits(database.db);
      client.resetAndDestroy();
      const server = service.app.getHttpServer() as Server;
      const connections = promisify(server.getConnections.bind(server));
      await waitFor(async () => (await connections()) === 0, 'the connection is closed');
      await unlock();
      await untilNoListRuns();
      await waitFor(async () => (await listsThatEnded('disconnected')) >= 8, 'all lists have ended');
      expect(await listsThatEnded('disconnected')).toBe(8);
    },
  );
});

describe('a list whose database connection', () => {
  let proxy: TcpProxy;
  let reader: StalledClient | undefined;

  beforeEach(async () => {
    proxy = await TcpProxy.start(database.url);
    const environment = { DATABASE_URL: proxy.urlFor(database.url), LIST_CONCURRENCY: '1', LIST_CACHE_MB: '0' };
    service = await startTestService({ database, environment });
  });
  afterEach(async () => {
    reader?.disconnect();
    await proxy.close();
  });

  it('is closed is aborted', async () => {
    reader = await StalledClient.open(service.port, key, { 'Accept-Encoding': 'gzip' });
    proxy.closeConnections();
    await reader.readToEnd();
    expect(reader.text).toMatch(/^HTTP\/1\.1 200 /);
    expect(reader.isComplete).toBe(false);
    await untilNoListRuns();
    await expectWholeList();
  });

  describeWith('curl')('is closed', () => {
    it('makes its client fail in HTTP/1.0, where a regular end could be that of the body', async () => {
      const client = await StalledCurl.open(service.baseUrl, key);
      await untilHeld(1);
      proxy.closeConnections();
      expect(await client.readToEnd()).toEqual({ exitCode: CURL_RECV_ERROR, isWhole: false });
      await expectWholeList();
    });
  });
});

describe('more concurrent lists that memory does not hold than LIST_CONCURRENCY', () => {
  const readers: StalledClient[] = [];

  /** Opens stalled lists until the service holds this number. */
  async function hold(count: number, caller: string): Promise<void> {
    while (readers.length < count) {
      readers.push(await StalledClient.open(service.port, caller));
    }
    await untilHeld(count);
  }
  afterEach(() => {
    readers.splice(0).forEach((reader) => {
      reader.disconnect();
    });
  });

  it('get 503 with Retry-After when no slot is free, or their key holds a quarter, and 200 when one is released', async () => {
    service = await startTestService({ database, environment: { LIST_CONCURRENCY: '4', LIST_CACHE_MB: '0' } });
    await hold(1, key);
    const overShare = listOrders(service.baseUrl, key);
    for (const count of [2, 3, 4]) {
      await hold(count, (await insertKey(database.db)).key);
    }
    const { key: other } = await insertKey(database.db);
    for (const response of await Promise.all([overShare, listOrders(service.baseUrl, other)])) {
      expect(await errorOf(response)).toMatchObject({ code: 'service_unavailable', status: 503 });
    }
    expect(await listConnectionsInUse()).toBe(4);
    readers[0]?.disconnect();
    await expectWholeList('identity', other);
  });

  it('do not leak a slot when a client disconnects while it waits for one', async () => {
    service = await startTestService({ database, environment: { LIST_CONCURRENCY: '2', LIST_CACHE_MB: '0' } });
    const { key: other } = await insertKey(database.db);
    await hold(1, key);
    await hold(2, other);
    await requestAndLeave(() => call(service.baseUrl, 'HEAD', '/store/orders', key));
    // It waits no longer, although no slot is free, so nothing will be read for it.
    await waitFor(async () => (await listsThatEnded('disconnected')) === 1, 'its list has ended');
    readers[0]?.disconnect();
    readers[1]?.disconnect();
    await untilNoListRuns();
    await Promise.all([expectWholeList(), expectWholeList('identity', other)]);
  });
});

it('a client that asks again and again and leaves after a moment ends no list of another key', async () => {
  service = await startTestService({ database });
  const impatient = await insertKey(database.db, { plan: 'business' });
  const headers = { Authorization: `Bearer ${impatient.key}` };
  let isOver = false;
  const leave = async (): Promise<void> => {
    while (!isOver) {
      await fetch(`${service.baseUrl}/v1/store/orders`, { headers, signal: AbortSignal.timeout(30) }).catch(
        () => undefined,
      );
    }
  };
  const leaving = leave();
  for (const encoding of ['gzip', 'identity']) {
    await database.db.query('UPDATE orders SET quantity = quantity - 1 WHERE id % 10000 = 0');
    await expectWholeList(encoding);
  }
  isOver = true;
  await leaving;
  expect(await listsThatEnded('cut')).toBe(0);
});

it.each(['identity', 'gzip'])('stalled lists that memory holds use no connection, encoded as %s', async (encoding) => {
  service = await startTestService({ database, environment: { LIST_CONCURRENCY: '1' } });
  const readers: StalledClient[] = [];
  for (let count = 0; count < 3; count++) {
    readers.push(await StalledClient.open(service.port, key, { 'Accept-Encoding': encoding }));
  }
  await untilNoListRuns();
  await expectWholeList('gzip');
  await expectWholeList('identity');
  for (const reader of readers) {
    expect(reader.isComplete).toBe(false);
    reader.disconnect();
  }
});

it('a list from memory counts in the metrics as the part that was sent before its client left', async () => {
  service = await startTestService({ database });
  const listBytes = async (): Promise<number> =>
    (await ServiceMetrics.of(service.app)).sum('petstore_list_bytes_total');
  await expectWholeList('gzip');
  const whole = await listBytes();
  expect(whole).toBeGreaterThan(ORDERS * 80);
  const reader = await StalledClient.open(service.port, key);
  reader.disconnect();
  await waitFor(async () => (await listsThatEnded('disconnected')) === 1, 'the list has ended');
  const part = (await listBytes()) - whole;
  expect(part).toBeGreaterThan(0);
  expect(part).toBeLessThan(whole);
});

it('more stalled lists than the main pool has connections delay neither cancels, nor 304, nor HEAD', async () => {
  const READERS = MAIN_CONNECTIONS_MAX + 1;
  const environment = { LIST_CACHE_MB: '0', LIST_CONCURRENCY: String(READERS) };
  service = await startTestService({ database, environment });
  const readers: StalledClient[] = [];
  // One after the other: all at once, PostgreSQL may take too long for one of them on a busy machine.
  while (readers.length < READERS) {
    readers.push(await StalledClient.open(service.port, (await insertKey(database.db)).key));
    await untilHeld(readers.length);
  }
  const ids = await Promise.all(Array.from({ length: 20 }, () => insertOrder(database.db, { id: nextId() })));
  const untouched = await insertOrder(database.db, { id: nextId() });
  for (const id of ids) {
    expect((await cancelOrder(service.baseUrl, id, key)).status).toBe(204);
  }
  expect((await listOrders(service.baseUrl, key, { 'If-None-Match': '*' })).status).toBe(304);
  expect((await call(service.baseUrl, 'HEAD', '/store/orders', key)).status).toBe(200);
  // All of them had their response while every list still had its connection.
  expect(await listConnectionsInUse()).toBe(READERS);
  expect(await statusOf(database.db, untouched)).toBe('pending');
  for (const reader of readers) {
    reader.disconnect();
  }
});

// At the same time, because they wait for timeouts.
describe('a list that makes no progress', () => {
  it.concurrent.each([
    ['because its server stops delivering rows is aborted', 'stall', false],
    ['because its server receives nothing more is sent completely', 'holdClientData', true],
    ['because its client stalls is aborted after LIST_STALL_SECONDS', undefined, false],
  ] as const)('%s, and releases its slot', async (_what, fault, isSent) => {
    const proxy = await TcpProxy.start(database.url);
    const own = await startTestService({
      database,
      environment: {
        DATABASE_URL: proxy.urlFor(database.url),
        LIST_CONCURRENCY: '1',
        LIST_CACHE_MB: '0',
        ...(fault === undefined ? { LIST_STALL_SECONDS: '1' } : {}),
      },
    });
    const reader = await StalledClient.open(own.port, key);
    if (fault === undefined) {
      await untilNoListRuns(own);
      await reader.readToEnd();
    } else {
      proxy[fault]();
      const ended = reader.readToEnd();
      await untilNoListRuns(own);
      await ended;
    }
    expect(reader.isComplete).toBe(isSent);
    proxy.restore();
    await expectWholeList('identity', key, own);
    await proxy.close();
    await own.stop();
  });
});
