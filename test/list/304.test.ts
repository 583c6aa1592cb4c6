import { call, cancelOrder, listOrders } from '../helpers/api.js';
import { insertOrder } from '../helpers/builders.js';
import { TcpProxy } from '../helpers/tcp-proxy.js';
import { startTestService, type TestService, useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { responseTo } from '../helpers/wire.js';

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

it('the tag in the second of two header lines: 304, and for other tags the whole list', async () => {
  const statuses: number[] = [];
  for (const tag of [await currentEtag(), '"another"']) {
    const headers = ['If-None-Match: "other"', `If-None-Match: ${tag}`];
    const { status, body } = await responseTo(service.port, 'GET', '/v1/store/orders', { key, headers });
    statuses.push(status);
    expect(body).toMatch(status === 304 ? /^$/ : /^\[\{"id":1,.*\}\]$/);
  }
  expect(statuses).toEqual([304, 200]);
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
    const poll = async (): Promise<number> => (await listOrders(other.baseUrl, key, { 'If-None-Match': etag })).status;
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
