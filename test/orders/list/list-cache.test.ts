import { insertKey } from '../../helpers/builders.js';
import { describeWith } from '../../helpers/describe-with.js';
import { runProcess } from '../../helpers/petstore.js';
import { requestRaw } from '../../helpers/raw-http.js';
import { useTestDatabase } from '../../helpers/test-database.js';
import { ServiceMetrics } from '../../helpers/service-metrics.js';
import { startTestService, type TestService } from '../../helpers/test-service.js';
import { waitFor } from '../../helpers/wait-for.js';
import { replaceMonotonicClock } from '../../helpers/monotonic-clock.js';

/** With every second id: six blocks and a part of a seventh, each a piece, and compressed more than a megabyte. */
const ORDERS = 50_000;
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

/** The body as text; not checked against the document, which would take seconds for each list. */
async function list(encoding: 'gzip' | 'identity', from: TestService = service): Promise<string> {
  const headers = { Authorization: `Bearer ${key}`, 'Accept-Encoding': encoding };
  const response = await fetch(`${from.baseUrl}/v1/store/orders`, { headers });
  expect([response.status, response.headers.get('content-encoding')]).toEqual([
    200,
    encoding === 'gzip' ? 'gzip' : null,
  ]);
  return response.text();
}

/** The orders that a service has read from the database since the last call. */
async function rowsRead(from: TestService = service): Promise<number> {
  const now = (await ServiceMetrics.of(from.app)).sum('petstore_list_rows_total');
  const before = rowsBefore.get(from) ?? 0;
  rowsBefore.set(from, now);
  return now - before;
}
const rowsBefore = new WeakMap<TestService, number>();
beforeEach(() => rowsRead());

/** The list of a service that has just started, which has no image of another version. */
async function listAnew(): Promise<string> {
  const other = await startTestService({ database });
  return list('gzip', other).finally(() => other.stop());
}

async function change(statement: string): Promise<void> {
  await database.db.query(statement);
}

describe('the image of the order list', () => {
  it('is read at most three times for 12 clients that ask at once, all of whom get it', async () => {
    const lists = await Promise.all(
      Array.from({ length: 12 }, (_, index) => list(index % 4 === 0 ? 'identity' : 'gzip')),
    );
    expect(new Set(lists).size).toBe(1);
    expect(JSON.parse(lists[0]!)).toHaveLength(ORDERS);
    expect(await rowsRead()).toBeLessThanOrEqual(3 * ORDERS);
  });

  it.each([
    ['no memory', '0', 2 * ORDERS],
    ['memory for a part', '1', 3 * ORDERS],
    ['memory for all', '64', ORDERS],
  ])('is the same list with %s, compressed or not', async (_what, megabytes, rowsMax) => {
    const other = await startTestService({ database, environment: { LIST_CACHE_MB: megabytes } });
    try {
      const expected = await list('gzip');
      expect([await list('gzip', other), await list('identity', other)]).toEqual([expected, expected]);
      expect(await rowsRead(other)).toBeLessThanOrEqual(rowsMax);
    } finally {
      await other.stop();
    }
  });

  it.each([
    ['nothing', 'SELECT', 0],
    ['an order', 'UPDATE orders SET quantity = quantity % 5 + 1 WHERE id = 50000', 8_192],
    ['orders of two pieces', 'UPDATE orders SET quantity = quantity % 5 + 1 WHERE id IN (8, 50000)', 2 * 8_192],
    ['all orders', 'UPDATE orders SET quantity = quantity % 5 + 1', ORDERS],
    ['all versions', 'SELECT renew_order_list_versions()', ORDERS],
  ])('is read anew only where %s changed', async (_what, statement, rowsMax) => {
    await list('gzip');
    await rowsRead();
    await change(statement);
    const compressed = await list('gzip');
    expect(await rowsRead()).toBeLessThanOrEqual(rowsMax);
    expect(await list('identity')).toBe(compressed);
    expect(await listAnew()).toBe(compressed);
    expect(await rowsRead()).toBe(0);
  });

  it('keeps every piece when rows of the versions are merged into the one without a block, and compares anew', async () => {
    await list('gzip');
    await rowsRead();
    await change(`INSERT INTO order_list_changes SELECT n, 0 FROM generate_series(1, 20000) AS n;
      SELECT merge_order_list_changes(0, 1000)`);
    const { rows: before } = await database.db.query<{ now: Date }>('SELECT clock_timestamp() AS now');
    const text = await list('gzip');
    await waitFor(async () => {
      const { rowCount } = await database.db.query(
        `SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'petstore-list'
         AND state = 'idle' AND query = 'COMMIT' AND query_start > $1`,
        [before[0]?.now],
      );
      return rowCount === 1;
    }, 'the image is compared anew');
    await change('UPDATE orders SET quantity = quantity % 5 + 1 WHERE id = 50000');
    expect(await list('gzip')).not.toBe(text);
    expect(await rowsRead()).toBeLessThanOrEqual(8_192);
  });

  it('stays complete and small in number of pieces while orders are deleted and inserted', async () => {
    for (const [index, statement] of [
      'DELETE FROM orders WHERE id BETWEEN 16384 AND 49151 AND id % 1000 <> 0',
      'DELETE FROM orders WHERE id % 1000 <> 0 AND id < 81920',
      'DELETE FROM orders WHERE id < 81920',
      'INSERT INTO orders (id, pet_id, quantity) SELECT n, n, 1 FROM generate_series(-40000, 81919, 3) AS n',
      'DELETE FROM orders WHERE id < 0',
    ].entries()) {
      await list('gzip');
      await change(statement);
      const { rows } = await database.db.query<{ ids: string }>(
        "SELECT string_agg(id::text, ',' ORDER BY id) AS ids FROM orders",
      );
      const text = await list(index % 2 === 0 ? 'gzip' : 'identity');
      expect(Array.from(text.matchAll(/"id":(-?\d+)/g), ([, id]) => id).join()).toBe(rows[0]!.ids);
    }
    await change('DELETE FROM orders');
    expect(await list('gzip')).toBe('[]');
    await change(FILL);
  });
});

describe('lists that memory does not hold', () => {
  it('are streamed, without a build for each of them, and from memory again once they fit', async () => {
    const other = await startTestService({ database, environment: { LIST_CACHE_MB: '1' } });
    try {
      const expected = await list('gzip', other);
      expect(await rowsRead(other)).toBeGreaterThan(ORDERS);
      for (const encoding of ['gzip', 'identity'] as const) {
        expect(await list(encoding, other)).toBe(expected);
        expect(await rowsRead(other)).toBe(ORDERS);
      }
      await change('DELETE FROM orders WHERE id > 20000');
      // A minute later one is built while lists are streamed.
      const now = performance.now.bind(performance);
      replaceMonotonicClock(() => now() + 61_000);
      await list('gzip', other);
      await waitFor(async () => {
        await rowsRead(other);
        await list('gzip', other);
        return (await rowsRead(other)) === 0;
      }, 'the list is in memory');
    } finally {
      await other.stop();
      await change(FILL);
    }
  });
});

describe('a list that cannot be encoded', () => {
  it('is a 500 for all who wait for it, before a response begins', async () => {
    await change('ALTER TABLE orders ALTER quantity DROP NOT NULL; UPDATE orders SET quantity = NULL WHERE id = 90000');
    try {
      const lists = await Promise.all(
        Array.from({ length: 8 }, () => requestRaw(service.baseUrl, { key, headers: { 'Accept-Encoding': 'gzip' } })),
      );
      expect(lists.map(({ status }) => status)).toEqual(Array<number>(8).fill(500));
    } finally {
      await change('UPDATE orders SET quantity = 1 WHERE id = 90000; ALTER TABLE orders ALTER quantity SET NOT NULL');
    }
    expect(JSON.parse(await list('gzip'))).toHaveLength(ORDERS);
  });
});

/** Like Chromium, curl reads no further than the first gzip member. */
describeWith('curl')('a compressed list fetched by curl', () => {
  it('is the uncompressed list', async () => {
    const options = ['--silent', '--compressed', '--header', `Authorization: Bearer ${key}`];
    const { stdout } = await runProcess(['curl', ...options, `${service.baseUrl}/v1/store/orders`]);
    expect(stdout).toBe(await list('identity'));
  });
});
