import { MAIN_CONNECTIONS_MAX } from '../../src/database/pools.js';
import { call, cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder, statusOf } from '../helpers/builders.js';
import { CURL_EXIT, curlList } from '../helpers/curl-list.js';
import { describeWith } from '../helpers/describe-with.js';
import { lockTable, untilLockWaits } from '../helpers/lock-waits.js';
import { RawClient } from '../helpers/raw-client.js';
import { StalledClient } from '../helpers/raw-http.js';
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

/** Ends the connection of a list that PostgreSQL cannot continue to send. */
const TERMINATE_BLOCKED_LIST = `
  SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE datname = current_database() AND query LIKE 'COPY %' AND state = 'active' AND wait_event = 'ClientWrite'`;

/** Above those orders. */
let lastId = 10_000_000;
const nextId = (): string => String(++lastId);

const database = useTestDatabase();
let service: TestService;
let key: string;
let readers: StalledClient[] = [];

beforeAll(async () => {
  await database.db.query(
    `INSERT INTO orders (pet_id, quantity, ship_date)
     SELECT 9000000000000000000 + n, 2147483647, now() FROM generate_series(1, $1) AS n`,
    [ORDERS],
  );
  ({ key } = await insertKey(database.db));
});
afterEach(async () => {
  readers.forEach((reader) => {
    reader.disconnect();
  });
  readers = [];
  await service.stop();
});

async function start(environment: Readonly<Record<string, string>>): Promise<void> {
  service = await startTestService({ database, environment });
}

async function metric(name: string, labels?: string): Promise<number> {
  return (await ServiceMetrics.of(service.app)).sum(name, labels);
}
const streamConnectionsInUse = (): Promise<number> => metric('petstore_pool_connections', 'pool="list",state="used"');
const listsThatEnded = (end: 'disconnected' | 'cut' | 'failed'): Promise<number> =>
  metric('petstore_lists_total', `end="${end}"`);

/** The client notices it before the service has cleaned up. */
async function untilEnded(end: 'disconnected' | 'failed'): Promise<void> {
  await waitFor(async () => (await listsThatEnded(end)) === 1, `the list counts as ${end}`);
}

async function untilNoListRuns(): Promise<void> {
  const isNone = async (): Promise<boolean> =>
    (await metric('petstore_lists_running')) + (await streamConnectionsInUse()) === 0;
  await waitFor(isNone, 'no list is running');
}

async function untilHeld(streams: number): Promise<void> {
  const isHeld = async (): Promise<boolean> => (await database.db.query(HELD_LISTS)).rowCount === streams;
  await waitFor(isHeld, `${streams} lists wait for clients`);
}

/** Opens a list and reads only its first bytes. */
async function stall(caller: string, encoding = 'identity'): Promise<StalledClient> {
  const reader = await StalledClient.open(service.port, caller, { 'Accept-Encoding': encoding });
  readers.push(reader);
  return reader;
}

/** Opens stalled lists that memory does not hold, each with a key of its own. */
async function holdStreams(count: number): Promise<void> {
  const before = readers.length;
  // One after the other: all at once, PostgreSQL may take too long for one of them on a busy machine.
  for (let opened = 1; opened <= count; opened++) {
    await stall((await insertKey(database.db)).key);
    await untilHeld(before + opened);
  }
}

/** @returns its response without the body */
async function expectWholeList(encoding = 'identity', caller = key): Promise<Response> {
  const response = await listOrders(service.baseUrl, caller, { 'Accept-Encoding': encoding });
  expect(response.status).toBe(200);
  const bytes = Buffer.from(await response.arrayBuffer());
  expect(bytes.length).toBeGreaterThan(ORDERS * 80);
  expect(bytes.subarray(-6).toString()).toMatch(/e\}\]$/);
  return response;
}

async function expectUnavailable(response: Response, message: string): Promise<void> {
  expect(response.headers.get('retry-after')).toBe('1');
  expect(await errorOf(response)).toEqual({ status: 503, code: 'service_unavailable', message });
}

describe('a list that is streamed', () => {
  it('releases its connection when its client disconnects', async () => {
    await start({ LIST_CONCURRENCY: '1', LIST_CACHE_MB: '0' });
    const reader = await stall(key);
    await untilHeld(1);
    expect(await streamConnectionsInUse()).toBe(1);
    reader.disconnect();
    await untilNoListRuns();
    await untilHeld(0);
    await untilEnded('disconnected');
    await expectWholeList();
  });

  it.each([1, 8])(
    'releases its connection when its client resets it before the response, of %p lists',
    async (count) => {
      await start({ LIST_CONCURRENCY: '1', LIST_CACHE_MB: '0' });
      const unlock = await lockTable(database.db, 'orders');
      const { socket } = await RawClient.open(
        service.port,
        requestText('GET', '/v1/store/orders', { key }).repeat(count),
      );
      await untilLockWaits(database.db, 1, 'petstore-list');
      socket.resetAndDestroy();
      await waitFor(async () => (await metric('petstore_connections')) === 0, 'the connection is closed');
      await unlock();
      await untilNoListRuns();
      await expectWholeList();
    },
  );

  it('is broken off when its database sends no more rows for LIST_STALL_SECONDS', async () => {
    const proxy = await TcpProxy.start(database.url);
    const environment = { DATABASE_URL: proxy.urlFor(database.url), LIST_STALL_SECONDS: '1', LIST_CACHE_MB: '0' };
    await start(environment);
    const reader = await stall(key);
    proxy.stall();
    await reader.readToEnd();
    expect(reader.isComplete).toBe(false);
    await untilNoListRuns();
    await proxy.close();
  });

  it('holds up ALTER TABLE for a minute at most', async () => {
    await start({ LIST_CACHE_MB: '0', LIST_STALL_SECONDS: '300' });
    // Only `setTimeout` is faked.
    const intervals = ['setImmediate', 'clearImmediate', 'setInterval', 'clearInterval'] as const;
    const doNotFake = ['Date', 'hrtime', 'nextTick', 'performance', 'queueMicrotask', ...intervals] as const;
    jest.useFakeTimers({ doNotFake: [...doNotFake] });
    try {
      const reader = await stall(key);
      await untilHeld(1);
      const altered = database.db.query('ALTER TABLE orders ADD COLUMN added int');
      await untilLockWaits(database.db);
      jest.advanceTimersByTime(60_000);
      await altered;
      await reader.readToEnd();
      expect(reader.isComplete).toBe(false);
    } finally {
      jest.useRealTimers();
    }
    await database.db.query('ALTER TABLE orders DROP COLUMN added');
  });
});

it.each([
  ['streamed', '0', false],
  ['sent from memory', '64', true],
])(
  'a list that is %s is broken off when its client reads nothing for LIST_STALL_SECONDS',
  async (_how, cacheMb, hasLength) => {
    await start({ LIST_STALL_SECONDS: '1', LIST_CACHE_MB: cacheMb });
    const reader = await stall(key);
    await untilNoListRuns();
    await reader.readToEnd();
    expect([reader.isComplete, reader.hasLength]).toEqual([false, hasLength]);
    await untilEnded('disconnected');
  },
);

it('a list from memory that is cut, because newer versions need the memory, is shorter than its Content-Length', async () => {
  await start({ LIST_CACHE_MB: '1' });
  const isCut = async (): Promise<boolean> => {
    expect((await stall(key)).hasLength).toBe(true);
    await database.db.query('SELECT renew_order_list_versions()');
    return (await listsThatEnded('cut')) > 0;
  };
  await waitFor(isCut, 'the oldest list is cut');
  expect(await listsThatEnded('cut')).toBe(1);
  await readers[0]?.readToEnd();
  expect(readers[0]?.isComplete).toBe(false);
  await expectWholeList();
});

describe('lists beyond the bounds', () => {
  it('return 503 when one key has an eighth of MAX_CONNECTIONS, while lists of others and cancels go on', async () => {
    await start({ MAX_CONNECTIONS: '32' });
    const { key: other } = await insertKey(database.db);
    const id = await insertOrder(database.db, { id: nextId() });
    while (readers.length < 32 / 8) {
      await stall(key);
    }
    const message = 'Too many order lists of this key are being sent; retry shortly.';
    await expectUnavailable(await listOrders(service.baseUrl, key), message);
    expect((await listOrders(service.baseUrl, key, { 'If-None-Match': '*' })).status).toBe(304);
    expect((await cancelOrder(service.baseUrl, id, key)).status).toBe(204);
    await expectWholeList('gzip', other);
    await expectWholeList('identity', other);
    readers[0]?.disconnect();
    const isListed = async (): Promise<boolean> => {
      const { status, body } = await listOrders(service.baseUrl, key);
      await body?.cancel();
      return status === 200;
    };
    await waitFor(isListed, 'the key has one less');
  });

  it('return 503 when a key has a quarter of LIST_CONCURRENCY, or all have all of it, and 200 when one ends', async () => {
    await start({ LIST_CONCURRENCY: '4', LIST_CACHE_MB: '0' });
    await stall(key);
    await untilHeld(1);
    const message = 'Too many order lists of this key are being read; retry shortly.';
    await expectUnavailable(await listOrders(service.baseUrl, key), message);
    await holdStreams(3);
    const { key: other } = await insertKey(database.db);
    const response = await listOrders(service.baseUrl, other);
    await expectUnavailable(response, 'The service is temporarily unavailable; retry shortly.');
    expect(await streamConnectionsInUse()).toBe(4);
    readers[0]?.disconnect();
    await expectWholeList('identity', other);
  });

  it('that are stalled streams, more than the main pool has connections, delay neither cancels, nor 304, nor HEAD', async () => {
    const streams = MAIN_CONNECTIONS_MAX + 1;
    await start({ LIST_CACHE_MB: '0', LIST_CONCURRENCY: String(streams) });
    await holdStreams(streams);
    const ids = await Promise.all(Array.from({ length: 20 }, () => insertOrder(database.db, { id: nextId() })));
    const untouched = await insertOrder(database.db, { id: nextId() });
    for (const id of ids) {
      expect((await cancelOrder(service.baseUrl, id, key)).status).toBe(204);
    }
    expect((await listOrders(service.baseUrl, key, { 'If-None-Match': '*' })).status).toBe(304);
    expect((await call(service.baseUrl, 'HEAD', '/store/orders', key)).status).toBe(200);
    // All of them had their response while every list still had its connection.
    expect(await streamConnectionsInUse()).toBe(streams);
    expect(await statusOf(database.db, untouched)).toBe('pending');
  });

  it('that are stalled streams hold up no build of the image', async () => {
    // Without a trigger there are no versions, so that lists are streamed although there is memory.
    await database.db.query('ALTER TABLE orders DISABLE TRIGGER orders_note_update');
    await start({ LIST_CONCURRENCY: '2' });
    await holdStreams(2);
    await database.db.query('ALTER TABLE orders ENABLE ALWAYS TRIGGER orders_note_update');
    for (const encoding of ['gzip', 'identity']) {
      expect((await expectWholeList(encoding)).headers.has('content-length')).toBe(true);
    }
    expect(await streamConnectionsInUse()).toBe(2);
    expect(readers.some(({ isComplete }) => isComplete)).toBe(false);
  });
});

// Last, because it inserts orders that the others need not read.
describeWith('curl')('a list that fails after it has begun, read by curl', () => {
  it.each([
    ['1.0', 'identity', CURL_EXIT.receiveError],
    ['1.0', 'gzip', CURL_EXIT.receiveError],
    ['1.1', 'identity', CURL_EXIT.partialFile],
    ['1.1', 'gzip', CURL_EXIT.partialFile],
  ] as const)('is broken off when an order cannot be encoded: HTTP/%s, %s', async (version, encoding, exitCode) => {
    const id = await insertOrder(database.db, { id: nextId() });
    await database.db.query('ALTER TABLE orders ALTER quantity DROP NOT NULL');
    await database.db.query('UPDATE orders SET quantity = NULL WHERE id = $1', [id]);
    try {
      await start({ LIST_CACHE_MB: '0' });
      const readToEnd = await curlList(service.baseUrl, key, { version, encoding });
      expect(await readToEnd()).toBe(exitCode);
      await untilEnded('failed');
    } finally {
      await database.db.query('DELETE FROM orders WHERE id = $1', [id]);
      await database.db.query('ALTER TABLE orders ALTER quantity SET NOT NULL');
    }
  });

  it('is reset in HTTP/1.0 when its client reads nothing for LIST_STALL_SECONDS', async () => {
    await start({ LIST_STALL_SECONDS: '1', LIST_CACHE_MB: '0' });
    const readToEnd = await curlList(service.baseUrl, key, { version: '1.0' });
    await untilEnded('disconnected');
    expect(await readToEnd()).toBe(CURL_EXIT.receiveError);
  });

  describe('when its database connection is lost while its client reads nothing', () => {
    // In the format of COPY 68 bytes each, in all 27 MB: more than the buffers of both connections hold.
    beforeAll(async () => {
      await database.db.query(
        `INSERT INTO orders (id, pet_id, quantity, ship_date)
         SELECT n, 9000000000000000000 + n, 2147483647, now() FROM generate_series(20000001, 20280000) AS n`,
      );
    });

    it.each([
      ['1.0', CURL_EXIT.receiveError],
      ['1.1', CURL_EXIT.partialFile],
    ] as const)('is broken off in HTTP/%s', async (version, exitCode) => {
      await start({ LIST_CACHE_MB: '0' });
      const readToEnd = await curlList(service.baseUrl, key, { version });
      await waitFor(async () => (await database.db.query(TERMINATE_BLOCKED_LIST)).rowCount === 1, 'PostgreSQL waits');
      expect(await readToEnd()).toBe(exitCode);
      await untilNoListRuns();
      await untilEnded('failed');
      await expectWholeList();
    });
  });
});
