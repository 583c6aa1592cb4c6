import { call, cancelOrder, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { expectErrorResponse, expectLimits } from '../helpers/expect-error-response.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { exchange, requestText, type WireResponse } from '../helpers/wire.js';

const PAGE = 'https://app.example.com';
const OTHER_PAGE = 'https://admin.example.com';
const FOREIGN_PAGE = 'https://evil.example.com';

describe('with CORS_ORIGINS', () => {
  let service: TestService;
  let key: string;
  beforeAll(async () => {
    service = await startTestService({ environment: { CORS_ORIGINS: `${PAGE},${OTHER_PAGE}` } });
    ({ key } = await insertKey(service.db));
  });
  afterAll(() => service.stop());
  beforeEach(() => {
    // Longer than a ban.
    service.clock.advance(600_000);
  });

  async function options(
    target: string,
    headers: readonly string[],
    withKey?: string,
  ): Promise<WireResponse | undefined> {
    const text = requestText('OPTIONS', target, { headers, ...(withKey === undefined ? {} : { key: withKey }) });
    return (await exchange(service.port, text, { until: 1 })).responses[0];
  }

  describe('a page of an allowed origin', () => {
    it.each([PAGE, OTHER_PAGE])('gets 204 with the CORS headers for a preflight without a key: %s', async (origin) => {
      const response = await options('/v1/store/orders/1', [
        `Origin: ${origin}`,
        'Access-Control-Request-Method: DELETE',
        'Access-Control-Request-Headers: authorization',
      ]);
      expect(response?.status).toBe(204);
      expect(response?.headers.get('access-control-allow-origin')).toEqual([origin]);
      expect(response?.headers.get('access-control-allow-methods')?.[0]).toContain('DELETE');
      expect(response?.headers.get('access-control-allow-headers')?.[0]?.toLowerCase()).toContain('authorization');
      expect(response?.headers.get('vary')?.join()).toContain('Origin');
    });

    const preflight = (): Promise<WireResponse | undefined> =>
      options('/v1/store/orders/1', [`Origin: ${PAGE}`, 'Access-Control-Request-Method: DELETE']);

    it('gets the rate-limit headers, the security headers and a request id in the response to a preflight', async () => {
      const response = await preflight();
      expectLimits(response, 'limits');
      expect(response?.headers.get('x-content-type-options')).toEqual(['nosniff']);
      expect(response?.headers.get('x-request-id')).toHaveLength(1);
    });

    it('gets 204 for every preflight and consumes no quota, whatever the number', async () => {
      const remaining = async (): Promise<number> =>
        Number((await listOrders(service.baseUrl)).headers.get('x-ratelimit-remaining'));
      const before = await remaining();
      for (let request = 0; request < 70; request++) {
        expect((await preflight())?.status).toBe(204);
      }
      expect(await remaining()).toBe(before - 1);
    });

    it('gets 204 with the CORS headers for a preflight from a banned address', async () => {
      const statuses = new Set<number>();
      for (let request = 0; request < 80; request++) {
        statuses.add((await listOrders(service.baseUrl)).status);
      }
      expect(statuses).toEqual(new Set([401, 429]));
      const response = await preflight();
      expect(response?.status).toBe(204);
      expect(response?.headers.get('access-control-allow-origin')).toEqual([PAGE]);
      expectLimits(response, 'limits');
    });

    it('cancels 100 orders with a Business key, each with its preflight', async () => {
      const business = await insertKey(service.db, { plan: 'business' });
      const remaining: (string | null)[] = [];
      for (let order = 0; order < 100; order++) {
        const id = await insertOrder(service.db);
        expect((await preflight())?.status).toBe(204);
        const response = await call(service.baseUrl, 'DELETE', `/store/orders/${id}`, business.key, { Origin: PAGE });
        expect(response.status).toBe(204);
        expect(response.headers.get('access-control-allow-origin')).toBe(PAGE);
        remaining.push(response.headers.get('x-ratelimit-remaining'));
      }
      expect(remaining.at(-1)).toBe('900');
    });

    it('may read successes, errors and the rate-limit headers', async () => {
      const spent = await insertKey(service.db, { requests_per_minute: 1, requests_per_day: 10 });
      await listOrders(service.baseUrl, spent.key);
      const headers = { Origin: PAGE };
      const responses = [
        await listOrders(service.baseUrl, key, headers),
        await listOrders(service.baseUrl, undefined, headers),
        await call(service.baseUrl, 'GET', '/nowhere', key, headers),
        await call(service.baseUrl, 'PUT', '/store/orders', key, headers),
        await listOrders(service.baseUrl, spent.key, headers),
      ];
      expect(responses.map(({ status }) => status)).toEqual([200, 401, 404, 405, 429]);
      for (const response of responses) {
        expect(response.headers.get('access-control-allow-origin')).toBe(PAGE);
        const exposed = response.headers.get('access-control-expose-headers')?.toLowerCase();
        for (const name of ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset', 'retry-after', 'etag']) {
          expect(exposed).toContain(name);
        }
      }
    });

    it('gets Vary: Origin, so that no cache gives it the response for another origin', async () => {
      const list = await listOrders(service.baseUrl, key, { Origin: PAGE });
      const rejected = await listOrders(service.baseUrl, undefined, { Origin: PAGE });
      expect(list.headers.get('vary')).toContain('Origin');
      expect(list.headers.get('vary')).toContain('Authorization');
      expect(rejected.headers.get('vary')).toContain('Origin');
    });
  });

  describe('a page of another origin', () => {
    it('gets no CORS headers', async () => {
      const preflight = await options('/v1/store/orders', [
        `Origin: ${FOREIGN_PAGE}`,
        'Access-Control-Request-Method: DELETE',
      ]);
      expect(preflight?.headers.has('access-control-allow-origin')).toBe(false);
      for (const origin of [FOREIGN_PAGE, 'null', `${PAGE}.evil.example.com`, PAGE.replace('https', 'http')]) {
        const response = await listOrders(service.baseUrl, key, { Origin: origin });
        expect(response.headers.has('access-control-allow-origin')).toBe(false);
      }
    });
  });

  describe('OPTIONS that is not a preflight', () => {
    it.each([
      ['no origin', []],
      ['an origin, no requested method', [`Origin: ${PAGE}`]],
      ['a requested method, no origin', ['Access-Control-Request-Method: GET']],
    ])('gets 405 with a key and 401 without one: %s', async (_what, headers) => {
      const response = await options('/v1/store/orders', headers, key);
      expectErrorResponse(response, 405, 'method_not_allowed');
      expectLimits(response, 'limits');
      expect(response?.headers.get('allow')).toEqual(['GET, HEAD']);
      expectErrorResponse(await options('/v1/store/orders', headers), 401, 'missing_api_key');
    });
  });
});

describe('without CORS_ORIGINS', () => {
  it('responds 204 to a preflight without CORS headers and without consuming quota, and sends none elsewhere', async () => {
    const service = await startTestService();
    const { key } = await insertKey(service.db);
    const responses = [await cancelOrder(service.baseUrl, '404404', key), await listOrders(service.baseUrl)];
    for (let request = 0; request < 70; request++) {
      const text = requestText('OPTIONS', '/v1/store/orders/1', {
        headers: [`Origin: ${PAGE}`, 'Access-Control-Request-Method: DELETE'],
      });
      const [preflight] = (await exchange(service.port, text, { until: 1 })).responses;
      expect([preflight?.status, preflight?.body]).toEqual([204, '']);
      expectLimits(preflight, 'limits');
      expect([...(preflight?.headers.keys() ?? [])].filter((name) => name.startsWith('access-control'))).toEqual([]);
    }
    responses.push(await listOrders(service.baseUrl));
    await service.stop();
    expect(responses.map(({ headers }) => headers.get('x-ratelimit-remaining'))).toEqual([
      expect.any(String),
      '59',
      '58',
    ]);
    for (const { headers } of responses) {
      expect([...headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([]);
    }
  });
});
