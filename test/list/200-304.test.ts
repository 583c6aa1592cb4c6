import { seedOrders } from '../../src/orders/seed-orders.js';
import { call, cancelOrder, listOrders } from '../helpers/api.js';
import { insertOrder } from '../helpers/builders.js';
import { lockTable, untilLockWaits } from '../helpers/lock-waits.js';
import { TcpProxy } from '../helpers/tcp-proxy.js';
import { startTestService, type TestService, useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { responseTo, textOf } from '../helpers/wire.js';
import { LIST_AS_JSON } from '../models/list-writer.js';

const CACHING = { 'cache-control': 'private, no-cache', vary: 'Origin, Authorization, Accept-Encoding' };

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

it('no orders: an empty array', async () => {
  expect(await listText()).toBe('[]');
});

it('orders of every status: all of them, by ascending id, negative ids first', async () => {
  const states = { '7': 'pending', '-3': 'shipped', '0': 'cancelled', '-20': 'pending', '10': 'shipped' } as const;
  for (const [id, status] of Object.entries(states)) {
    await insertOrder(context.service.db, { id, status });
  }
  const orders = JSON.parse(await listText()) as { id: number }[];
  expect(orders.map(({ id }) => id)).toEqual([-20, -3, 0, 7, 10]);
});

it('int64 ids: the published fields in their order, with every digit, without a ship date that is null', async () => {
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

it('ship dates: in UTC with milliseconds', async () => {
  const dates = {
    '2026-12-01 10:00:00.01+00': '2026-12-01T10:00:00.010Z',
    // The column has millisecond precision; PostgreSQL rounds the value when it stores it.
    '2026-12-31 23:59:59.9996+00': '2027-01-01T00:00:00.000Z',
    '1883-11-18 12:03:57.5-04:56:02': '1883-11-18T16:59:59.500Z',
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
  ['br;q=1.0, gzip;q=0.8, *;q=0.1', 'gzip'],
  [undefined, undefined],
  ['gzip;q=0', undefined],
])('Accept-Encoding %p: the same list with Content-Encoding %p', async (accepted, encoding) => {
  const client = await context.service.db.connect();
  await seedOrders(client, 3_000).finally(() => client.release());
  const response = await responseTo(context.service.port, 'GET', '/v1/store/orders', {
    key: context.key,
    headers: accepted === undefined ? [] : [`Accept-Encoding: ${accepted}`],
  });
  const { status, headers, body } = response;
  expect([status, headers.get('content-encoding')?.join()]).toEqual([200, encoding]);
  expect(headers.get('content-length')).toEqual([String(body.length)]);
  expect(headers.has('transfer-encoding')).toBe(false);
  const text = textOf(response);
  expect(text === (await expectedList())).toBe(true);
  expect(body.length < text.length / 5).toBe(encoding === 'gzip');
});

it.each(['?status=pending&limit=1', '?%zz'])('the query string %s: all orders', async (query) => {
  await insertOrder(context.service.db, { id: '1', status: 'pending' });
  await insertOrder(context.service.db, { id: '2', status: 'shipped' });
  const response = await call(context.service.baseUrl, 'GET', `/store/orders${query}`, context.key);
  expect([response.status, await response.text()]).toEqual([200, await expectedList()]);
});

it('HEAD while a lock on the table delays a GET: responds without reading the orders', async () => {
  await listText();
  await insertOrder(context.service.db, { id: '1' });
  const unlock = await lockTable(context.service.db, 'orders');
  let responded = false;
  const get = listText().finally(() => (responded = true));
  const head = (encoding: string): Promise<Response> =>
    call(context.service.baseUrl, 'HEAD', '/store/orders', context.key, { 'Accept-Encoding': encoding });
  try {
    await untilLockWaits(context.service.db, 1, 'petstore-list');
    const { status, headers } = await head('identity');
    expect([status, responded]).toEqual([200, false]);
    expect([headers.has('content-encoding'), headers.has('content-length')]).toEqual([false, false]);
    expect((await head('gzip')).headers.get('content-encoding')).toBe('gzip');
  } finally {
    await unlock();
  }
  await get;
});

describe('a conditional request or HEAD', () => {
  let service: TestService;
  let key: string;
  beforeEach(async () => {
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
  it('the current tag: 304 without a body', async () => {
    const etag = await currentEtag();
    const response = await listOrders(service.baseUrl, key, { 'If-None-Match': etag });
    expect([response.status, await response.text()]).toEqual([304, '']);
    // RFC 9110 section 15.4.5: the headers that the 200 would have had.
    const headers = Object.fromEntries(response.headers);
    expect(headers).toMatchObject({ etag, ...CACHING });
    expect(headers).not.toHaveProperty('content-type');
    expect(headers).not.toHaveProperty('transfer-encoding');
  });

  it.each(['gzip', 'identity'])('HEAD with Accept-Encoding %s: the headers of GET', async (encoding) => {
    const accepted = { 'Accept-Encoding': encoding };
    const list = await listOrders(service.baseUrl, key, accepted);
    await list.text();
    const head = await call(service.baseUrl, 'HEAD', '/store/orders', key, accepted);
    expect([head.status, await head.text()]).toEqual([200, '']);
    const headers = Object.fromEntries(list.headers);
    expect(headers).toMatchObject(CACHING);
    for (const name of ['etag', 'content-type', 'content-encoding', 'content-length', 'cache-control', 'vary']) {
      expect(head.headers.get(name)).toBe(list.headers.get(name));
    }
    expect(headers).toHaveProperty('content-length');
    expect(headers['content-encoding']).toBe(encoding === 'gzip' ? 'gzip' : undefined);
  });

  it('HEAD with the current tag: 304', async () => {
    const etag = await currentEtag();
    const again = await call(service.baseUrl, 'HEAD', '/store/orders', key, { 'If-None-Match': etag });
    expect([again.status, again.headers.get('etag'), await again.text()]).toEqual([304, etag, '']);
  });

  it('a tag from before a change: never 304, also during a poll that began before the change', async () => {
    const proxy = await TcpProxy.start(service.url);
    const other = await startTestService({
      database: service,
      environment: { DATABASE_URL: proxy.urlFor(service.url) },
    });
    try {
      // The build at start reads the version, too.
      const isInMemory = async (): Promise<boolean> =>
        (await call(other.baseUrl, 'HEAD', '/store/orders', key)).headers.has('content-length');
      await waitFor(isInMemory, 'the list is in memory');
      const etag = await currentEtag();
      const poll = async (): Promise<number> =>
        (await listOrders(other.baseUrl, key, { 'If-None-Match': etag })).status;
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
