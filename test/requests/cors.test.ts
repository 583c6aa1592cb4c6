import { call, listOrders } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { expectErrorResponse, expectLimits } from '../helpers/expect-error-response.js';
import type { WireResponse } from '../helpers/raw-client.js';
import { startTestService, useTestService } from '../helpers/test-service.js';
import { responseTo } from '../helpers/wire.js';

const PAGE = 'https://app.example.com';
/** What the interface documents and pages may not read by themselves. */
const EXPOSED = [
  ...['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset', 'ratelimit', 'ratelimit-policy'],
  ...['retry-after', 'etag', 'www-authenticate', 'x-request-id'],
];

const context = useTestService({ environment: { CORS_ORIGINS: `https://admin.example.com,${PAGE}` } });
beforeEach(() => {
  // Longer than a ban.
  context.service.clock.advance(600_000);
});

const options = (headers: readonly string[], key?: string): Promise<WireResponse> =>
  responseTo(context.service.port, 'OPTIONS', '/v1/store/orders', { headers, key });
const preflight = (origin = PAGE, ...headers: string[]): Promise<WireResponse> =>
  options([`Origin: ${origin}`, 'Access-Control-Request-Method: DELETE', ...headers]);

describe('a page of an allowed origin', () => {
  it('gets 204 with the CORS headers for a preflight without a key', async () => {
    const requested = 'authorization,traceparent,x-anything';
    const response = await preflight(PAGE, `Access-Control-Request-Headers: ${requested}`);
    expect(response.status).toBe(204);
    expect(response.headers.get('access-control-allow-origin')).toEqual([PAGE]);
    expect(response.headers.get('access-control-allow-methods')?.[0]).toContain('DELETE');
    expect(response.headers.get('access-control-allow-headers')).toEqual([requested]);
    expect(response.headers.get('vary')?.join()).toContain('Origin');
    expectLimits(response, 'limits');
    expect(response.headers.get('x-request-id')).toHaveLength(1);
  });

  it('gets 204 for a preflight from a banned address, and preflights consume no quota of it', async () => {
    const { baseUrl, clock } = context.service;
    const remaining = async (): Promise<unknown> => (await listOrders(baseUrl)).headers.get('x-ratelimit-remaining');
    expect(await remaining()).toBe('59');
    for (let request = 0; request < 70; request++) {
      expect((await preflight()).status).toBe(204);
    }
    expect(await remaining()).toBe('58');
    for (let request = 0; request < 80; request++) {
      await listOrders(baseUrl);
      clock.advance(100);
    }
    expect((await listOrders(baseUrl)).status).toBe(429);
    expect((await preflight()).status).toBe(204);
  });

  it('may read successes, errors and the rate-limit headers', async () => {
    const { baseUrl, db } = context.service;
    const spent = await insertKey(db, { requests_per_minute: 1, requests_per_day: 10 });
    await listOrders(baseUrl, spent.key);
    const headers = { Origin: PAGE };
    const responses = [
      await listOrders(baseUrl, context.key, headers),
      await listOrders(baseUrl, undefined, headers),
      await call(baseUrl, 'GET', '/nowhere', context.key, headers),
      await call(baseUrl, 'PUT', '/store/orders', context.key, headers),
      await listOrders(baseUrl, spent.key, headers),
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

it.each(['https://evil.example.com', `${PAGE}.evil.example.com`])(
  'a page of another origin gets no CORS headers: %s',
  async (origin) => {
    expect((await preflight(origin)).headers.has('access-control-allow-origin')).toBe(false);
    const response = await listOrders(context.service.baseUrl, context.key, { Origin: origin });
    expect(response.headers.has('access-control-allow-origin')).toBe(false);
  },
);

it.each([
  ['an origin, no requested method', [`Origin: ${PAGE}`]],
  ['a requested method, no origin', ['Access-Control-Request-Method: GET']],
])('OPTIONS that is no preflight gets 405 with a key and 401 without one: %s', async (_what, headers) => {
  const response = await options(headers, context.key);
  expectErrorResponse(response, 405, 'method_not_allowed');
  expect(response.headers.get('allow')).toEqual(['GET, HEAD']);
  expectErrorResponse(await options(headers), 401, 'missing_api_key');
});

it('without CORS_ORIGINS a preflight gets 204 without allowing an origin, and no response has CORS headers', async () => {
  const service = await startTestService({ database: context.service });
  const headers = [`Origin: ${PAGE}`, 'Access-Control-Request-Method: DELETE'];
  const responses = [
    await responseTo(service.port, 'OPTIONS', '/v1/store/orders', { headers }),
    await responseTo(service.port, 'GET', '/v1/store/orders', { headers, key: context.key }),
  ];
  await service.stop();
  expect(responses.map(({ status }) => status)).toEqual([204, 200]);
  for (const response of responses) {
    expectLimits(response, 'limits');
    const allowed = [...response.headers.keys()].filter((name) => /^access-control-(?:allow-origin|expose)/.test(name));
    expect(allowed).toEqual([]);
  }
});
