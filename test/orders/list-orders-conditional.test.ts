import { Pools } from '../../src/database/pools.js';
import { cancelOrder, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { expectLimitHeaders } from '../helpers/limit-headers.js';
import { requestRaw } from '../helpers/raw-http.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

let service: TestService;
let key: string;

beforeAll(async () => {
  service = await startTestService();
  ({ key } = await insertKey(service.db));
  await insertOrder(service.db, { id: '1' });
  await insertOrder(service.db, { id: '2' });
});
afterAll(async () => {
  await service.stop();
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

describe('GET /v1/store/orders with If-None-Match', () => {
  it('returns 304 with the rate-limit headers and no body for the current tag', async () => {
    const etag = await currentEtag();
    const { status, headers, body } = await requestRaw(service.baseUrl, { key, headers: { 'If-None-Match': etag } });
    expect([status, body.length]).toEqual([304, 0]);
    // RFC 9110 section 15.4.5: the headers that the 200 would have had.
    expect(headers).toMatchObject({
      etag,
      'cache-control': 'private, no-cache',
      vary: 'Authorization, Accept-Encoding',
    });
    expect(headers).not.toHaveProperty('content-type');
    expect(headers).not.toHaveProperty('transfer-encoding');
    expectLimitHeaders(headers);
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

  // The tests of the versions of the list cover what changes the tag.
  it('changes the tag when a change is committed, not before', async () => {
    const session = await service.db.connect();
    await session.query('BEGIN; UPDATE orders SET quantity = quantity + 1 WHERE id = 1');
    const before = await currentEtag();
    expect(await statusWith(before)).toBe(304);
    await session.query('COMMIT');
    session.release();
    expect(await statusWith(before)).toBe(200);
  });

  it('returns the same tag for HEAD as for GET, and 304 for a conditional HEAD', async () => {
    const etag = await currentEtag();
    const head = await requestRaw(service.baseUrl, { method: 'HEAD', key });
    expect([head.status, head.headers.etag]).toEqual([200, etag]);
    const again = await requestRaw(service.baseUrl, { method: 'HEAD', key, headers: { 'If-None-Match': etag } });
    expect([again.status, again.headers.etag, again.body.length]).toEqual([304, etag, 0]);
  });

  it('returns the same tag in every process on the same database', async () => {
    const other = await startTestService({ database: service });
    try {
      const etag = await currentEtag();
      const response = await listOrders(other.baseUrl, key, { 'If-None-Match': etag });
      expect([response.status, response.headers.get('etag')]).toEqual([304, etag]);
      await insertOrder(service.db);
      expect((await listOrders(other.baseUrl, key, { 'If-None-Match': etag })).status).toBe(200);
    } finally {
      await other.stop();
    }
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
    const spy = jest.spyOn(main, 'query').mockImplementation((...args: unknown[]) => delayed(...args) as never);
    try {
      const pollBefore = statusWith(etag);
      await waitFor(() => looks === 1, 'the first poll has read the version');
      await insertOrder(service.db);
      const pollsAfter = [statusWith(etag), statusWith(etag), statusWith(etag)];
      // They have arrived once a request that was sent after them has its response.
      expect((await cancelOrder(service.baseUrl, '404404', key)).status).toBe(404);
      changed.abort();
      expect([await pollBefore, ...(await Promise.all(pollsAfter))]).toEqual([304, 200, 200, 200]);
    } finally {
      spy.mockRestore();
    }
  });
});
