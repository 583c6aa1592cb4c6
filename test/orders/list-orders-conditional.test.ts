import { Pools } from '../../src/database/pools.js';
import { cancelOrder, listOrders } from '../helpers/api.js';
import { insertOrder } from '../helpers/builders.js';
import { requestRaw } from '../helpers/raw-http.js';
import { type TestService, useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

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

async function statusWith(etag: string): Promise<number> {
  const response = await listOrders(service.baseUrl, key, { 'If-None-Match': etag });
  await response.text();
  return response.status;
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

  it.each(['gzip', 'identity'])('returns the Content-Encoding of GET for HEAD: %s', async (encoding) => {
    const request = { key, headers: { 'Accept-Encoding': encoding } };
    const { headers } = await requestRaw(service.baseUrl, request);
    const head = await requestRaw(service.baseUrl, { ...request, method: 'HEAD' });
    expect(head.headers['content-encoding']).toBe(headers['content-encoding']);
    expect(headers['content-encoding']).toBe(encoding === 'gzip' ? 'gzip' : undefined);
  });

  it('never returns 304 for a tag from before a change, also during a poll that began before it', async () => {
    const etag = await currentEtag();
    const { main } = service.app.get(Pools);
    const query = main.query.bind(main) as (...args: unknown[]) => Promise<unknown>;
    const changed = new AbortController();
    let looks = 0;
    // The first poll has read the version already, and its response is late.
    const delayed = async (...args: unknown[]): Promise<unknown> => {
      const result = await query(...args);
      if ((args[0] as { name?: string }).name === 'list_name' && ++looks === 1) {
        await waitFor(() => changed.signal.aborted, 'an order is inserted and more polls have arrived');
      }
      return result;
    };
    jest.spyOn(main, 'query').mockImplementation((...args: unknown[]) => delayed(...args) as never);
    const pollBefore = statusWith(etag);
    await waitFor(() => looks === 1, 'the first poll has read the version');
    await insertOrder(service.db);
    const pollsAfter = [statusWith(etag), statusWith(etag), statusWith(etag)];
    // They have arrived once a request that was sent after them has its response.
    expect((await cancelOrder(service.baseUrl, '404404', key)).status).toBe(404);
    changed.abort();
    expect([await pollBefore, ...(await Promise.all(pollsAfter))]).toEqual([304, 200, 200, 200]);
  });
});
