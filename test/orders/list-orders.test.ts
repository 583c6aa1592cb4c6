import { gunzipSync } from 'node:zlib';
import { seedOrders } from '../../src/orders/seed-orders.js';
import { cancelOrder, listOrders } from '../helpers/api.js';
import { insertOrder } from '../helpers/builders.js';
import { lockTable, untilLockWaits } from '../helpers/lock-waits.js';
import { requestRaw } from '../helpers/raw-http.js';
import { TcpProxy } from '../helpers/tcp-proxy.js';
import { startTestService, type TestService, useTestService } from '../helpers/test-service.js';
import { LIST_AS_JSON } from '../model/list-writer.js';

describe('the list of orders', () => {
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

    it('returns exactly the published fields in their order, with every digit, and omits a null ship date', async () => {
      const shipped = { quantity: 2_147_483_647, status: 'shipped', complete: true } as const;
      await insertOrder(context.service.db, { id: '9007199254740993', pet_id: '-9223372036854775808', ...shipped });
      const cancelled = { ship_date: null, status: 'cancelled' } as const;
      await insertOrder(context.service.db, { id: '9223372036854775807', pet_id: '0', ...cancelled });
      expect(await listText()).toBe(
        '[{"id":9007199254740993,"petId":-9223372036854775808,"quantity":2147483647,' +
          '"shipDate":"2026-12-01T10:00:00.000Z","complete":true},' +
          '{"id":9223372036854775807,"petId":0,"quantity":1,"complete":false}]',
      );
    });

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
      expect([headers['content-length'], headers['transfer-encoding']]).toEqual([String(body.length), undefined]);
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
  });

  it('HEAD /v1/store/orders responds without reading the orders, while a lock on the table delays a GET', async () => {
    await requestRaw(context.service.baseUrl, { key: context.key });
    await insertOrder(context.service.db, { id: '1' });
    const unlock = await lockTable(context.service.db, 'orders');
    let responded = false;
    const get = requestRaw(context.service.baseUrl, { key: context.key }).finally(() => (responded = true));
    try {
      await untilLockWaits(context.service.db, 1, 'petstore-list');
      const head = await requestRaw(context.service.baseUrl, { method: 'HEAD', key: context.key });
      expect([head.status, head.body.length, responded]).toEqual([200, 0, false]);
      expect(head.headers['content-encoding']).toBeUndefined();
      expect(head.headers).not.toHaveProperty('content-length');
      const compressed = { method: 'HEAD', key: context.key, headers: { 'Accept-Encoding': 'gzip' } };
      expect((await requestRaw(context.service.baseUrl, compressed)).headers['content-encoding']).toBe('gzip');
    } finally {
      await unlock();
    }
    expect((await get).status).toBe(200);
  });
});

describe('conditional requests', () => {
  const CACHING = { 'cache-control': 'private, no-cache', vary: 'Origin, Authorization, Accept-Encoding' };

  const context = useTestService();
  let service: TestService;
  let key: string;

  beforeAll(async () => {
    ({ service, key } = context);
    await insertOrder(service.db, { id: '1' });
    await insertOrder(service.db, { id: '2' });
  });

  async function currentEtag(): Promise<string> {
    const response = await listOrders(service.baseUrl, key);
    expect(response.status).toBe(200);
    await response.text();
    return response.headers.get('etag') ?? '';
  }

  // The tests of the versions of the list cover what changes the tag.
  describe('GET /v1/store/orders with If-None-Match', () => {
    it('returns 304 without a body for the current tag', async () => {
      const etag = await currentEtag();
      const { status, headers, body } = await requestRaw(service.baseUrl, { key, headers: { 'If-None-Match': etag } });
      expect([status, body.length]).toEqual([304, 0]);
      // RFC 9110 section 15.4.5: the headers that the 200 would have had.
      expect(headers).toMatchObject({ etag, ...CACHING });
      expect(headers).not.toHaveProperty('content-type');
      expect(headers).not.toHaveProperty('transfer-encoding');
    });

    it('returns 304 for the tag in the second of two header lines, and the whole list for other tags', async () => {
      const statuses: number[] = [];
      for (const tag of [await currentEtag(), '"another"']) {
        const headers = { 'If-None-Match': ['"other"', tag] };
        const { status, body } = await requestRaw(service.baseUrl, { key, headers });
        statuses.push(status);
        expect(body.toString()).toMatch(status === 304 ? /^$/ : /^\[\{"id":1,.*\}\]$/);
      }
      expect(statuses).toEqual([304, 200]);
    });

    it('returns the same headers for HEAD as for GET, and 304 for a conditional HEAD', async () => {
      const { headers } = await requestRaw(service.baseUrl, { key });
      const head = await requestRaw(service.baseUrl, { method: 'HEAD', key });
      expect([head.status, head.body.length]).toEqual([200, 0]);
      expect(headers).toMatchObject(CACHING);
      for (const name of ['etag', 'content-type', 'cache-control', 'vary', 'x-content-type-options']) {
        expect(head.headers[name]).toBe(headers[name]);
      }
      const etag = String(headers.etag);
      const again = await requestRaw(service.baseUrl, { method: 'HEAD', key, headers: { 'If-None-Match': etag } });
      expect([again.status, again.headers.etag, again.body.length]).toEqual([304, etag, 0]);
    });

    it.each(['gzip', 'identity'])('returns the Content-Encoding and -Length of GET for HEAD: %s', async (encoding) => {
      const request = { key, headers: { 'Accept-Encoding': encoding } };
      const { headers } = await requestRaw(service.baseUrl, request);
      const head = await requestRaw(service.baseUrl, { ...request, method: 'HEAD' });
      for (const name of ['content-encoding', 'content-length']) {
        expect(head.headers[name]).toBe(headers[name]);
      }
      expect(headers).toHaveProperty('content-length');
      expect(headers['content-encoding']).toBe(encoding === 'gzip' ? 'gzip' : undefined);
    });

    it('never returns 304 for a tag from before a change, also during a poll that began before it', async () => {
      const proxy = await TcpProxy.start(service.url);
      const other = await startTestService({
        database: service,
        environment: { DATABASE_URL: proxy.urlFor(service.url) },
      });
      try {
        const etag = await currentEtag();
        const poll = async (): Promise<number> =>
          (await requestRaw(other.baseUrl, { key, headers: { 'If-None-Match': etag } })).status;
        expect(await poll()).toBe(304);
        let pollsAfter: Promise<number>[] = [];
        // The first poll has read the version already, and its response is late.
        const late = proxy.after('list_name', async () => {
          await insertOrder(service.db);
          pollsAfter = [poll(), poll(), poll()];
          // They have arrived once a request that was sent after them has its response.
          expect((await cancelOrder(other.baseUrl, '404404', key)).status).toBe(404);
        });
        expect(await poll()).toBe(304);
        await late;
        expect(await Promise.all(pollsAfter)).toEqual([200, 200, 200]);
      } finally {
        await other.stop();
        await proxy.close();
      }
    });
  });
});
