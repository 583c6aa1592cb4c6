import { createHash } from 'node:crypto';
import { listOrders } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { describeWith } from '../helpers/describe-if.js';
import { runProcess } from '../helpers/petstore.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { LIST_AS_JSON } from '../models/list-writer.js';
import { waitFor } from '../helpers/wait-for.js';
import { replaceMonotonicClock } from '../helpers/monotonic-clock.js';

/** With every second id: six blocks and a part of a seventh, each a piece, and compressed more than a megabyte. */
const ORDERS = 50_000;
const PIECES = 7;
const FILL = `INSERT INTO orders (id, pet_id, quantity, ship_date)
  SELECT 2 * n, 9e18 * random(), 1 + 2e9 * random(), now() + random() * interval '9 years' FROM generate_series(1, ${ORDERS}) AS n
  ON CONFLICT DO NOTHING`;

const database = useTestDatabase();
let service: TestService;
let key: string;

beforeAll(async () => {
  ({ key } = await insertKey(database.db, { plan: 'business' }));
  await change(FILL);
});

// One service: each test begins with the image that the one before has left.
beforeAll(async () => {
  service = await startTestService({ database });
});
afterAll(() => service.stop());

type Encoding = 'gzip' | 'identity';

/** Not checked against the document, which would take seconds for each list. */
async function respond(method: 'GET' | 'HEAD', encoding: Encoding, from: TestService): Promise<Response> {
  const headers = { Authorization: `Bearer ${key}`, 'Accept-Encoding': encoding };
  const response = await fetch(`${from.baseUrl}/v1/store/orders`, { method, headers });
  const encoded = encoding === 'gzip' ? 'gzip' : null;
  expect([response.status, response.headers.get('content-encoding')]).toEqual([200, encoded]);
  return response;
}

/** @returns the body */
async function list(encoding: Encoding, from: TestService = service): Promise<string> {
  return (await respond('GET', encoding, from)).text();
}

/** What a list is said to have, which only one from memory does; by HEAD that which memory holds now. */
async function contentLength(method: 'GET' | 'HEAD', encoding: Encoding, from: TestService): Promise<number> {
  const response = await respond(method, encoding, from);
  await response.arrayBuffer();
  return Number(response.headers.get('content-length') ?? NaN);
}

async function untilInMemory(from: TestService): Promise<void> {
  await waitFor(async () => (await contentLength('HEAD', 'gzip', from)) > 0, 'the list is in memory');
}

/** What a service has read from the database since the last call. */
async function read(from: TestService = service): Promise<{ pieces: number; rows: number }> {
  const metrics = await ServiceMetrics.of(from.app);
  const now = {
    pieces: metrics.sum('petstore_list_pieces_total', 'database'),
    rows: metrics.sum('petstore_list_rows_total'),
  };
  const before = readBefore.get(from) ?? { pieces: 0, rows: 0 };
  readBefore.set(from, now);
  return { pieces: now.pieces - before.pieces, rows: now.rows - before.rows };
}
const readBefore = new WeakMap<TestService, { pieces: number; rows: number }>();
beforeEach(() => read());

/** What the list must be. */
async function table(): Promise<string> {
  const { rows } = await database.db.query<{ text: string }>(LIST_AS_JSON);
  return `[${rows[0]!.text}]`;
}

const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex');

async function change(statement: string): Promise<void> {
  await database.db.query(statement);
}

describe('the image of the order list', () => {
  it('64 clients of a service that has just started: it is read at most three times, and all of them get it', async () => {
    const expected = hashOf(await list('gzip'));
    const other = await startTestService({ database });
    try {
      const lists = Array.from({ length: 64 }, async (_, index) =>
        hashOf(await list(index % 8 === 0 ? 'identity' : 'gzip', other)),
      );
      expect(new Set(await Promise.all(lists))).toEqual(new Set([expected]));
      expect((await read(other)).rows).toBeLessThanOrEqual(3 * ORDERS);
    } finally {
      await other.stop();
    }
  });

  it('the service starts: it is read, so that the first list reads no orders', async () => {
    const other = await startTestService({ database });
    try {
      await untilInMemory(other);
      expect((await read(other)).rows).toBe(ORDERS);
      await list('gzip', other);
      await list('identity', other);
      expect((await read(other)).rows).toBe(0);
    } finally {
      await other.stop();
    }
  });

  it.each([
    ['nothing has', 'SELECT', 0, 0],
    ['orders of two pieces have', 'UPDATE orders SET quantity = quantity % 5 + 1 WHERE id IN (8, 50000)', 2, 2 * 8_192],
    ['all versions have', 'SELECT renew_order_list_versions()', PIECES, ORDERS],
  ])('%s changed: only that is read again', async (_what, statement, pieces, rowsMax) => {
    await list('gzip');
    await read();
    await change(statement);
    const compressed = await list('gzip');
    const first = await read();
    expect([compressed === (await table()), compressed === (await list('identity'))]).toEqual([true, true]);
    expect([first.pieces, first.rows <= rowsMax]).toEqual([pieces, true]);
    expect((await read()).rows).toBe(0);
  });

  it('orders are deleted and inserted: it stays complete', async () => {
    for (const statement of [
      'DELETE FROM orders WHERE id BETWEEN 16384 AND 49151 AND id % 1000 <> 0',
      'DELETE FROM orders WHERE id < 81920',
      'INSERT INTO orders (id, pet_id, quantity) SELECT n, n, 1 FROM generate_series(-40000, 81919, 3) AS n',
      'DELETE FROM orders',
    ]) {
      await list('gzip');
      await change(statement);
      expect((await list('gzip')) === (await table())).toBe(true);
    }
    await change(FILL);
  });
});

describe('lists that memory does not hold', () => {
  it('they are streamed without a build for each, and come from memory a minute after they fit', async () => {
    const expected = await table();
    const other = await startTestService({ database, environment: { LIST_CACHE_MB: '1' } });
    try {
      expect((await list('gzip', other)) === expected).toBe(true);
      // The build of the start, which that list has shared, and its stream.
      expect((await read(other)).rows).toBeLessThanOrEqual(2 * ORDERS);
      for (const encoding of ['gzip', 'identity'] as const) {
        const response = await respond('GET', encoding, other);
        expect(response.headers.get('transfer-encoding')).toBe('chunked');
        expect(response.headers.has('content-length')).toBe(false);
        expect((await response.text()) === expected).toBe(true);
        expect((await read(other)).rows).toBe(ORDERS);
        expect(await contentLength('HEAD', encoding, other)).toBeNaN();
      }
      await change('DELETE FROM orders WHERE id > 20000');
      expect(await contentLength('GET', 'gzip', other)).toBeNaN();
      const now = performance.now.bind(performance);
      replaceMonotonicClock(() => now() + 61_000);
      expect(await contentLength('GET', 'gzip', other)).toBeGreaterThan(0);
      await read(other);
      await list('identity', other);
      expect((await read(other)).rows).toBe(0);
    } finally {
      await other.stop();
      await change(FILL);
    }
  });
});

describe('an order that cannot be encoded', () => {
  it('500 for all who wait for the image, before a response begins', async () => {
    await change('ALTER TABLE orders ALTER quantity DROP NOT NULL; UPDATE orders SET quantity = NULL WHERE id = 90000');
    try {
      const lists = [listOrders(service.baseUrl, key), listOrders(service.baseUrl, key)];
      expect((await Promise.all(lists)).map(({ status }) => status)).toEqual([500, 500]);
    } finally {
      await change('UPDATE orders SET quantity = 1 WHERE id = 90000; ALTER TABLE orders ALTER quantity SET NOT NULL');
    }
    expect(JSON.parse(await list('gzip'))).toHaveLength(ORDERS);
  });
});

/** Like Chromium, curl reads no further than the first gzip member. */
describeWith('curl')('a compressed list, fetched by curl', () => {
  it('has all orders of an uncompressed one', async () => {
    const options = ['--silent', '--compressed', '--header', `Authorization: Bearer ${key}`];
    const { stdout } = await runProcess(['curl', ...options, `${service.baseUrl}/v1/store/orders`]);
    expect(stdout).toBe(await list('identity'));
  });
});
