import { call, cancelOrder, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { expectErrorResponse, expectLimits } from '../helpers/expect-error-response.js';
import { useTestService } from '../helpers/test-service.js';
import { type WireResponse, responseTo } from '../helpers/wire.js';

describe('CORS', () => {
  const PAGE = 'https://app.example.com';
  const OTHER_PAGE = 'https://admin.example.com';
  const FOREIGN_PAGE = 'https://evil.example.com';
  /** What the interface documents and pages may not read by themselves. */
  const EXPOSED = [
    ...['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset', 'ratelimit', 'ratelimit-policy'],
    ...['retry-after', 'etag', 'www-authenticate', 'x-request-id'],
  ];

  describe('with CORS_ORIGINS', () => {
    const context = useTestService({ environment: { CORS_ORIGINS: `${PAGE},${OTHER_PAGE}` } });
    beforeEach(() => {
      // Longer than a ban.
      context.service.clock.advance(600_000);
    });

    const options = (target: string, headers: readonly string[], key?: string): Promise<WireResponse> =>
      responseTo(context.service.port, 'OPTIONS', target, { headers, key });

    describe('a page of an allowed origin', () => {
      it.each([PAGE, OTHER_PAGE])(
        'gets 204 with the CORS headers for a preflight without a key: %s',
        async (origin) => {
          const response = await options('/v1/store/orders/1', [
            `Origin: ${origin}`,
            'Access-Control-Request-Method: DELETE',
            'Access-Control-Request-Headers: authorization',
          ]);
          expect(response.status).toBe(204);
          expect(response.headers.get('access-control-allow-origin')).toEqual([origin]);
          expect(response.headers.get('access-control-allow-methods')?.[0]).toContain('DELETE');
          expect(response.headers.get('access-control-allow-headers')?.[0]?.toLowerCase()).toContain('authorization');
          expect(response.headers.get('vary')?.join()).toContain('Origin');
          expectLimits(response, 'limits');
          expect(response.headers.get('x-content-type-options')).toEqual(['nosniff']);
          expect(response.headers.get('x-request-id')).toHaveLength(1);
        },
      );

      it('may send the headers of a tracing library or a generated client', async () => {
        const requested = 'authorization,traceparent,tracestate,baggage,content-type,x-anything';
        const response = await options('/v1/store/orders', [
          `Origin: ${PAGE}`,
          'Access-Control-Request-Method: GET',
          `Access-Control-Request-Headers: ${requested}`,
        ]);
        expect(response.headers.get('access-control-allow-headers')).toEqual([requested]);
      });

      const preflight = (): Promise<WireResponse> =>
        options('/v1/store/orders/1', [`Origin: ${PAGE}`, 'Access-Control-Request-Method: DELETE']);

      it('gets 204 with the CORS headers for a preflight from a banned address', async () => {
        const statuses = new Set<number>();
        for (let request = 0; request < 80; request++) {
          statuses.add((await listOrders(context.service.baseUrl)).status);
        }
        expect(statuses).toEqual(new Set([401, 429]));
        const response = await preflight();
        expect(response.status).toBe(204);
        expect(response.headers.get('access-control-allow-origin')).toEqual([PAGE]);
        expectLimits(response, 'limits');
      });

      it('cancels 70 orders, each with its preflight, which consumes no quota of the key or the address', async () => {
        const { db, baseUrl } = context.service;
        const { key } = await insertKey(db, { plan: 'business' });
        const remaining = (response: Response): string | null => response.headers.get('x-ratelimit-remaining');
        const before = Number(remaining(await listOrders(baseUrl)));
        for (let order = 0; order < 70; order++) {
          expect((await preflight()).status).toBe(204);
          const response = await call(baseUrl, 'DELETE', `/store/orders/${await insertOrder(db)}`, key, {
            Origin: PAGE,
          });
          expect([response.status, remaining(response)]).toEqual([204, String(999 - order)]);
          expect(response.headers.get('access-control-allow-origin')).toBe(PAGE);
        }
        expect(remaining(await listOrders(baseUrl))).toBe(String(before - 1));
      });

      it('may read successes, errors and the rate-limit headers', async () => {
        const spent = await insertKey(context.service.db, { requests_per_minute: 1, requests_per_day: 10 });
        await listOrders(context.service.baseUrl, spent.key);
        const headers = { Origin: PAGE };
        const responses = [
          await listOrders(context.service.baseUrl, context.key, headers),
          await listOrders(context.service.baseUrl, undefined, headers),
          await call(context.service.baseUrl, 'GET', '/nowhere', context.key, headers),
          await call(context.service.baseUrl, 'PUT', '/store/orders', context.key, headers),
          await listOrders(context.service.baseUrl, spent.key, headers),
        ];
        expect(responses.map(({ status }) => status)).toEqual([200, 401, 404, 405, 429]);
        for (const response of responses) {
          expect(response.headers.get('access-control-allow-origin')).toBe(PAGE);
          // No cache gives it the response for another origin.
          expect(response.headers.get('vary')).toContain('Origin');
          const exposed = response.headers.get('access-control-expose-headers')?.toLowerCase().split(',');
          expect(exposed).toEqual(expect.arrayContaining(EXPOSED));
        }
        expect(responses[0]?.headers.get('vary')).toContain('Authorization');
      });
    });

    describe('a page of another origin', () => {
      it('gets no CORS headers', async () => {
        const preflight = await options('/v1/store/orders', [
          `Origin: ${FOREIGN_PAGE}`,
          'Access-Control-Request-Method: DELETE',
        ]);
        expect(preflight.headers.has('access-control-allow-origin')).toBe(false);
        for (const origin of [FOREIGN_PAGE, 'null', `${PAGE}.evil.example.com`, PAGE.replace('https', 'http')]) {
          const response = await listOrders(context.service.baseUrl, context.key, { Origin: origin });
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
        const response = await options('/v1/store/orders', headers, context.key);
        expectErrorResponse(response, 405, 'method_not_allowed');
        expectLimits(response, 'limits');
        expect(response.headers.get('allow')).toEqual(['GET, HEAD']);
        expectErrorResponse(await options('/v1/store/orders', headers), 401, 'missing_api_key');
      });
    });
  });

  describe('without CORS_ORIGINS', () => {
    const context = useTestService();

    it('responds 204 to a preflight without allowing an origin and without consuming quota, and sends no CORS headers elsewhere', async () => {
      const { service, key } = context;
      const responses = [await cancelOrder(service.baseUrl, '404404', key), await listOrders(service.baseUrl)];
      for (let request = 0; request < 70; request++) {
        const headers = [`Origin: ${PAGE}`, 'Access-Control-Request-Method: DELETE'];
        const preflight = await responseTo(service.port, 'OPTIONS', '/v1/store/orders/1', { headers });
        expect([preflight.status, preflight.body]).toEqual([204, '']);
        expectLimits(preflight, 'limits');
        expect(preflight.headers.has('access-control-allow-origin')).toBe(false);
      }
      responses.push(await listOrders(service.baseUrl));
      const remaining = responses.map(({ headers }) => headers.get('x-ratelimit-remaining'));
      expect(remaining).toEqual([expect.any(String), '59', '58']);
      for (const { headers } of responses) {
        expect([...headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([]);
      }
    });
  });
});

const PAGE = 'https://app.example.com';

describe('security headers', () => {
  const context = useTestService({ environment: { CORS_ORIGINS: PAGE } });

  test.each<[string, status: number, method: string, target: string, ...headers: string[]]>([
    ['a list', 200, 'GET', '/v1/store/orders'],
    ['HEAD for the list', 200, 'HEAD', '/v1/store/orders'],
    ['an unchanged list', 304, 'GET', '/v1/store/orders', 'If-None-Match: *'],
    // `expectErrorResponse` checks those of errors.
    ['the index', 200, 'GET', '/'],
    ['a health check', 200, 'GET', '/health/live'],
    ['the documentation page', 200, 'GET', '/docs'],
    ['a file of the documentation page', 200, 'GET', '/docs/swagger-ui.css'],
    ['the OpenAPI document', 200, 'GET', '/docs/openapi.json'],
    ['a preflight', 204, 'OPTIONS', '/v1/store/orders', `Origin: ${PAGE}`, 'Access-Control-Request-Method: GET'],
  ])('are on the response to %s (%i): no sniffing, active content or framing', async (_what, status, ...request) => {
    const [method, target, ...headers] = request;
    const response = await responseTo(context.service.port, method, target, { key: context.key, headers });
    expect(response.status).toBe(status);
    expect(response.headers.get('x-content-type-options')).toEqual(['nosniff']);
    const policy = response.headers.get('content-security-policy')?.join() ?? '';
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toContain('upgrade-insecure-requests');
  });
});
