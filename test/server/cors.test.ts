import { call, cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { expectErrorResponse, expectLimits } from '../helpers/expect-error-response.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { exchange, requestText, type WireResponse } from '../helpers/wire.js';

const PAGE = 'https://app.example.com';
const OTHER_PAGE = 'https://admin.example.com';
const STRANGER = 'https://evil.example.com';

describe.each([true, false])('with CORS_ORIGINS (rejectEarly: %s)', (rejectEarly) => {
  let service: TestService;
  let key: string;
  beforeAll(async () => {
    service = await startTestService({ rejectEarly, environment: { CORS_ORIGINS: `${PAGE},${OTHER_PAGE}` } });
    ({ key } = await insertKey(service.db));
  });
  afterAll(() => service.stop());
  beforeEach(() => {
    service.clock.advance(60_000);
  });

  async function options(
    target: string,
    headers: readonly string[],
    withKey?: string,
  ): Promise<WireResponse | undefined> {
    const text = requestText('OPTIONS', target, { headers, ...(withKey === undefined ? {} : { key: withKey }) });
    return (await exchange(service.port, text, { until: 1 })).responses[0];
  }

  describe('a page of a known origin', () => {
    it.each([PAGE, OTHER_PAGE])('may ask before it cancels an order, without a key: %s', async (origin) => {
      const answer = await options('/v1/store/orders/1', [
        `Origin: ${origin}`,
        'Access-Control-Request-Method: DELETE',
        'Access-Control-Request-Headers: authorization',
      ]);
      expect(answer?.status).toBe(204);
      expect(answer?.headers.get('access-control-allow-origin')).toEqual([origin]);
      expect(answer?.headers.get('access-control-allow-methods')?.[0]).toContain('DELETE');
      expect(answer?.headers.get('access-control-allow-headers')?.[0]?.toLowerCase()).toContain('authorization');
      expect(answer?.headers.get('vary')?.join()).toContain('Origin');
    });

    it('is shown the limits in the answer to that question, as in every other', async () => {
      const answer = await options('/v1/store/orders', [`Origin: ${PAGE}`, 'Access-Control-Request-Method: GET']);
      expectLimits(answer, 'limits');
    });

    it('is refused that question, too, when the limit of its address is spent', async () => {
      const ask = (): Promise<WireResponse | undefined> =>
        options('/v1/store/orders', [`Origin: ${PAGE}`, 'Access-Control-Request-Method: GET']);
      for (let request = 0; request < 60; request++) {
        expect((await ask())?.status).toBe(204);
      }
      const refused = await ask();
      expectErrorResponse(refused, 429, 'rate_limit_exceeded');
      expectLimits(refused, 'limits');
    });

    it('may read successes and errors alike, and where it stands', async () => {
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

    it('is not given an answer that was kept for another page', async () => {
      const list = await listOrders(service.baseUrl, key, { Origin: PAGE });
      const refusal = await listOrders(service.baseUrl, undefined, { Origin: PAGE });
      expect(list.headers.get('vary')).toContain('Origin');
      expect(list.headers.get('vary')).toContain('Authorization');
      expect(refusal.headers.get('vary')).toContain('Origin');
    });
  });

  describe('a page of another origin', () => {
    it('is not told that it may read anything', async () => {
      const preflight = await options('/v1/store/orders', [
        `Origin: ${STRANGER}`,
        'Access-Control-Request-Method: DELETE',
      ]);
      expect(preflight?.headers.has('access-control-allow-origin')).toBe(false);
      for (const origin of [STRANGER, 'null', `${PAGE}.evil.example.com`, PAGE.replace('https', 'http')]) {
        const response = await listOrders(service.baseUrl, key, { Origin: origin });
        expect(response.headers.has('access-control-allow-origin')).toBe(false);
      }
    });
  });

  describe('OPTIONS that is no question of a browser', () => {
    it.each([
      ['no origin', []],
      ['an origin and no method to ask for', [`Origin: ${PAGE}`]],
      ['a method to ask for and no origin', ['Access-Control-Request-Method: GET']],
    ])('is a wrong method like any other: %s', async (_what, headers) => {
      const answer = await options('/v1/store/orders', headers, key);
      expectErrorResponse(answer, 405, 'method_not_allowed');
      expectLimits(answer, 'limits');
      expect(answer?.headers.get('allow')).toEqual(['GET, HEAD']);
      expectErrorResponse(await options('/v1/store/orders', headers), 401, 'missing_api_key');
    });
  });
});

describe('without CORS_ORIGINS', () => {
  it('no page may read anything, and its question is a wrong method', async () => {
    const service = await startTestService();
    const { key } = await insertKey(service.db);
    const cancelled = await cancelOrder(service.baseUrl, '404404', key);
    const preflight = await call(service.baseUrl, 'OPTIONS', '/store/orders', key, {
      Origin: PAGE,
      'Access-Control-Request-Method': 'GET',
    });
    expect((await errorOf(preflight)).code).toBe('method_not_allowed');
    await service.stop();
    for (const { headers } of [cancelled, preflight]) {
      expect([...headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([]);
    }
  });
});
