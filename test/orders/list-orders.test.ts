import { Agent } from 'node:http';
import { gunzipSync } from 'node:zlib';
import { untilLockWaits } from '../helpers/lock-waits.js';
import { listOrders } from '../helpers/api.js';
import { insertOrder } from '../helpers/builders.js';
import { expectLimitHeaders } from '../helpers/limit-headers.js';
import { requestRaw } from '../helpers/raw-http.js';
import { startTestService, useTestService } from '../helpers/test-service.js';
import { LIST_AS_JSON, Witness } from '../model/list-writer.js';
import { seedOrders } from '../../src/orders/seed-orders.js';

const context = useTestService();
beforeEach(() => context.service.db.query('TRUNCATE orders'));

async function listText(): Promise<string> {
  const response = await listOrders(context.service.baseUrl, context.key);
  expect(response.status).toBe(200);
  return response.text();
}

async function expectedList(): Promise<string> {
  const { rows } = await context.service.db.query<{ text: string }>(LIST_AS_JSON);
  return `[${rows[0]?.text}]`;
}

describe('GET /v1/store/orders', () => {
  it('returns an empty array when there are no orders', async () => {
    expect(await listText()).toBe('[]');
  });

  it('lists every order whatever its status, by ascending id, negative ids first', async () => {
    const states = { '7': 'pending', '-3': 'shipped', '0': 'cancelled', '-20': 'pending', '10': 'shipped' } as const;
    for (const [id, status] of Object.entries(states)) {
      await insertOrder(context.service.db, { id, status });
    }
    const orders = JSON.parse(await listText()) as { id: number }[];
    expect(orders.map(({ id }) => id)).toEqual([-20, -3, 0, 7, 10]);
  });

  it('returns exactly the published fields in their order, and omits a null ship date', async () => {
    const shipped = { quantity: 2_147_483_647, status: 'shipped', complete: true } as const;
    await insertOrder(context.service.db, { id: '1', pet_id: '-9', ...shipped });
    await insertOrder(context.service.db, { id: '2', pet_id: '0', ship_date: null, status: 'cancelled' });
    expect(await listText()).toBe(
      '[{"id":1,"petId":-9,"quantity":2147483647,"shipDate":"2026-12-01T10:00:00.000Z","complete":true},' +
        '{"id":2,"petId":0,"quantity":1,"complete":false}]',
    );
  });

  it.each(['9007199254740993', '9223372036854775807', '-9223372036854775808'])(
    'returns the id and the pet id %s exactly',
    async (id) => {
      await insertOrder(context.service.db, { id, pet_id: id });
      await insertOrder(context.service.db, { id: '1' });
      expect(await listText()).toContain(`{"id":${id},"petId":${id},"quantity":1,`);
    },
  );

  it('returns ship dates in UTC with milliseconds', async () => {
    const dates = {
      '2026-12-01 10:00:00+00': '2026-12-01T10:00:00.000Z',
      '2026-12-01 10:00:00.01+00': '2026-12-01T10:00:00.010Z',
      // The column has millisecond precision; PostgreSQL rounds the value when it stores it.
      '2026-12-31 23:59:59.9996+00': '2027-01-01T00:00:00.000Z',
      '1883-11-18 12:03:57.5-04:56:02': '1883-11-18T16:59:59.500Z',
      '0001-01-01 00:00:00+00': '0001-01-01T00:00:00.000Z',
      '9999-12-31 23:59:59.999+00': '9999-12-31T23:59:59.999Z',
    };
    for (const stored of Object.keys(dates)) {
      await insertOrder(context.service.db, { ship_date: stored });
    }
    const orders = JSON.parse(await listText()) as { shipDate: string }[];
    expect(orders.map(({ shipDate }) => shipDate)).toEqual(Object.values(dates));
  });

  it('returns a list larger than a buffer exactly as PostgreSQL formats it', async () => {
    const client = await context.service.db.connect();
    await seedOrders(client, 12_345).finally(() => client.release());
    await insertOrder(context.service.db, { id: '-9223372036854775808' });
    await insertOrder(context.service.db, { id: '9223372036854775807', pet_id: '9223372036854775807' });
    const expected = await expectedList();
    expect(expected.length).toBeGreaterThan(1_000_000);
    // Compared as a boolean, because a diff of a megabyte is unreadable.
    expect((await listText()) === expected).toBe(true);
  });

  it('never returns a part of a concurrent transaction, nor one tag for two lists', async () => {
    const client = await context.service.db.connect();
    await seedOrders(client, 5_000);
    const pairs = await context.service.db.query<{ min: string }>('UPDATE orders SET quantity = 10 RETURNING id');
    expect(pairs.rowCount).toBe(5_000);
    const stopped = new AbortController();
    let transactions = 0;
    const writing = (async () => {
      while (!stopped.signal.aborted) {
        // Each transaction changes rows at both ends of the list, so a partial one is visible as a difference between them.
        await client.query('BEGIN');
        await client.query('UPDATE orders SET quantity = quantity + 1 WHERE id = 1');
        await client.query('DELETE FROM orders WHERE id IN (-1, 1000000)');
        await client.query('UPDATE orders SET quantity = quantity + 1 WHERE id = 5000');
        if (transactions % 2 === 0) {
          await client.query('INSERT INTO orders (id, pet_id, quantity) VALUES (-1, 1, 1), (1000000, 1, 1)');
        }
        await client.query('COMMIT');
        transactions++;
      }
    })();
    const seen = new Set<number>();
    const etags = new Witness();
    try {
      for (let round = 0; round < 40; round++) {
        const response = await listOrders(context.service.baseUrl, context.key);
        const text = await response.text();
        etags.see(response.headers.get('etag') ?? 'none', text);
        const orders = JSON.parse(text) as { id: number; quantity: number }[];
        const byId = new Map(orders.map((order) => [order.id, order.quantity]));
        expect(byId.get(1)).toBe(byId.get(5_000));
        expect(byId.get(-1)).toBe(byId.get(1_000_000));
        expect(orders).toHaveLength(byId.has(-1) ? 5_002 : 5_000);
        seen.add(byId.get(1) ?? 0);
      }
    } finally {
      stopped.abort();
      await writing.finally(() => client.release());
    }
    expect(seen.size).toBeGreaterThan(5);
  });

  it('returns Content-Type application/json and Cache-Control private, no-cache', async () => {
    const { headers } = await requestRaw(context.service.baseUrl, { key: context.key });
    expect(headers).toMatchObject({
      'content-type': 'application/json',
      'cache-control': 'private, no-cache',
      vary: 'Authorization, Accept-Encoding',
      etag: expect.stringMatching(/^W\/"[\w-]+"$/) as string,
    });
    expect(headers['content-encoding']).toBeUndefined();
    expectLimitHeaders(headers);
  });

  it.each([
    ['gzip', 'gzip'],
    ['gzip, deflate, br', 'gzip'],
    ['br;q=1.0, gzip;q=0.8, *;q=0.1', 'gzip'],
    [undefined, undefined],
    ['', undefined],
    ['identity', undefined],
    ['br', undefined],
    ['gzip;q=0', undefined],
  ])('returns the same list for Accept-Encoding %p with Content-Encoding %p', async (accepted, encoding) => {
    const client = await context.service.db.connect();
    await seedOrders(client, 3_000).finally(() => client.release());
    const { status, headers, body } = await requestRaw(context.service.baseUrl, {
      key: context.key,
      headers: accepted === undefined ? {} : { 'Accept-Encoding': accepted },
    });
    expect([status, headers['content-encoding']]).toEqual([200, encoding]);
    const text = (encoding === 'gzip' ? gunzipSync(body) : body).toString();
    expect(text === (await expectedList())).toBe(true);
    expect(body.length < text.length / 5).toBe(encoding === 'gzip');
  });

  it.each(['?status=pending&limit=1&limit=3', '?%zz', '?id[]=1&id[x]=2'])(
    'ignores the query string %s and returns all orders',
    async (query) => {
      await insertOrder(context.service.db, { id: '1', status: 'pending' });
      await insertOrder(context.service.db, { id: '2', status: 'shipped' });
      const { status, body } = await requestRaw(context.service.baseUrl, {
        path: `/store/orders${query}`,
        key: context.key,
      });
      expect([status, body.toString()]).toEqual([200, await expectedList()]);
    },
  );

  it.each([
    ['broken JSON', 'application/json', '{"status":'],
    ['a megabyte of bytes', 'application/octet-stream', 'x'.repeat(1_048_576)],
  ])('ignores a request body of %s, and keeps the connection usable', async (_what, type, body) => {
    await insertOrder(context.service.db, { id: '1' });
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    try {
      for (const options of [{ headers: { 'Content-Type': type }, body }, {}]) {
        const response = await requestRaw(context.service.baseUrl, { key: context.key, agent, ...options });
        expect([response.status, response.body.toString()]).toEqual([200, await expectedList()]);
      }
    } finally {
      agent.destroy();
    }
  });
});

describe('a database URL that sets session options', () => {
  it('does not change the dates', async () => {
    const url = new URL(context.service.url);
    url.searchParams.set('options', '-c timezone=America/St_Johns -c datestyle=German');
    const other = await startTestService({ database: context.service, environment: { DATABASE_URL: url.href } });
    try {
      await insertOrder(context.service.db, { ship_date: '2026-12-01 10:00:00.5+00' });
      const list = await listOrders(other.baseUrl, context.key);
      expect(await list.json()).toMatchObject([{ shipDate: '2026-12-01T10:00:00.500Z' }]);
    } finally {
      await other.stop();
    }
  });
});

describe('HEAD /v1/store/orders', () => {
  it('returns the headers of the list without a body', async () => {
    await insertOrder(context.service.db, { id: '1' });
    const [get, head] = [
      await requestRaw(context.service.baseUrl, { key: context.key }),
      await requestRaw(context.service.baseUrl, { method: 'HEAD', key: context.key }),
    ];
    expect([head.status, head.body.length]).toEqual([200, 0]);
    for (const name of ['content-type', 'cache-control', 'vary', 'x-content-type-options']) {
      expect(head.headers[name]).toBe(get.headers[name]);
    }
    expect(head.headers.etag).toMatch(/^W\/"/);
    expectLimitHeaders(head.headers);
  });

  it('responds without reading the orders, while a lock on the table delays a GET', async () => {
    await requestRaw(context.service.baseUrl, { key: context.key });
    await insertOrder(context.service.db, { id: '1' });
    const session = await context.service.db.connect();
    await session.query('BEGIN; LOCK TABLE orders IN ACCESS EXCLUSIVE MODE');
    let responded = false;
    const get = requestRaw(context.service.baseUrl, { key: context.key }).finally(() => (responded = true));
    try {
      await untilLockWaits(context.service.db, 1, 'petstore-list');
      const head = await requestRaw(context.service.baseUrl, { method: 'HEAD', key: context.key });
      expect([head.status, head.body.length, responded]).toEqual([200, 0, false]);
    } finally {
      await session.query('ROLLBACK');
      session.release();
    }
    expect((await get).status).toBe(200);
  });
});
