import { METHODS } from 'node:http';
import { insertKey, insertOrder, statusOf } from '../helpers/builders.js';
import { expectErrorResponse, expectLimits } from '../helpers/expect-error-response.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { exchange, requestText, type WireResponse } from '../helpers/wire.js';

let service: TestService;
let key: string;
let order: string;
beforeAll(async () => {
  service = await startTestService();
  ({ key } = await insertKey(service.db));
  order = await insertOrder(service.db);
});
afterAll(() => service.stop());
beforeEach(() => {
  service.clock.advance(60_000);
});

/** Every method that the HTTP parser accepts, except CONNECT, which has no path. */
const ALL_METHODS = METHODS.filter((method) => method !== 'CONNECT');

async function ask(method: string, target: string, withKey?: string): Promise<WireResponse | undefined> {
  const text = requestText(method, target, withKey === undefined ? {} : { key: withKey });
  const { responses } = await exchange(service.port, text, { until: 1, methods: [method] });
  return responses[0];
}

describe('a method that a path does not support', () => {
  const UNSUPPORTED = ALL_METHODS.filter((method) => method !== 'GET' && method !== 'HEAD');
  const UNSUPPORTED_FOR_ORDER = ALL_METHODS.filter((method) => method !== 'DELETE');

  it.each(UNSUPPORTED)('returns 405 with Allow for %s /v1/store/orders', async (method) => {
    const response = await ask(method, '/v1/store/orders', key);
    expectErrorResponse(response, 405, 'method_not_allowed', method);
    expectLimits(response, 'limits');
    expect(response?.headers.get('allow')).toEqual(['GET, HEAD']);
  });

  it.each(UNSUPPORTED_FOR_ORDER)('returns 405 with Allow for %s on one order', async (method) => {
    const response = await ask(method, `/v1/store/orders/${order}`, key);
    expectErrorResponse(response, 405, 'method_not_allowed', method);
    expectLimits(response, 'limits');
    expect(response?.headers.get('allow')).toEqual(['DELETE']);
    expect(await statusOf(service.db, order)).toBe('pending');
  });

  it('returns 405 before the order id is validated', async () => {
    expectErrorResponse(await ask('PUT', '/v1/store/orders/not-an-id', key), 405, 'method_not_allowed');
  });

  it('returns 405 for a request with a body, and keeps the connection open', async () => {
    const body = JSON.stringify({ petId: 1 });
    const post = requestText('POST', '/v1/store/orders', {
      key,
      headers: ['Content-Type: application/json', `Content-Length: ${body.length}`],
      body,
    });
    const { responses } = await exchange(service.port, post + post, { until: 2 });
    expectErrorResponse(responses[0], 405, 'method_not_allowed');
    expectErrorResponse(responses[1], 405, 'method_not_allowed');
  });
});

describe('a path under the version segment that does not exist', () => {
  it.each(ALL_METHODS)('returns 404 for %s with a key, and 401 without', async (method) => {
    const response = await ask(method, '/v1/pets/1', key);
    expectErrorResponse(response, 404, 'route_not_found', method);
    expectLimits(response, 'limits');
    const anonymous = await ask(method, '/v1/pets/1');
    expectErrorResponse(anonymous, 401, 'missing_api_key', method);
    expectLimits(anonymous, 'limits');
  });

  it.each([
    ['the version segment alone', '/v1'],
    ['the version segment and a slash', '/v1/'],
    ['the version segment and a query', '/v1?a=b'],
    ['a trailing slash after the list', '/v1/store/orders/'],
    ['two slashes after the list', '/v1/store/orders//'],
    ['two slashes after the version segment', '/v1//store/orders'],
    ['two slashes before the last segment', '/v1/store//orders'],
    ['a capital letter', '/v1/Store/orders'],
    ['capital letters', '/v1/STORE/ORDERS'],
    ['a deeper path', '/v1/store/orders/1/lines'],
    ['a dot segment', '/v1/./store/orders'],
    ['a double-dot segment', '/v1/../v1/store/orders'],
    ['an encoded slash', '/v1/store%2forders'],
    ['an encoded question mark', '/v1/store/orders%3f'],
    ['a path parameter', '/v1/store/orders;a=b'],
    ['__proto__', '/v1/__proto__'],
    ['constructor', '/v1/constructor'],
    ['a repeated version segment', '/v1/v1/store/orders'],
  ])('returns 404 for %s', async (_what, target) => {
    const response = await ask('GET', target, key);
    expectErrorResponse(response, 404, 'route_not_found');
    expectLimits(response, 'limits');
    expectErrorResponse(await ask('GET', target), 401, 'missing_api_key');
  });

  it('returns 404 for an order with a trailing slash, which is not cancelled', async () => {
    expectErrorResponse(await ask('DELETE', `/v1/store/orders/${order}/`, key), 404, 'route_not_found');
    expectErrorResponse(await ask('DELETE', '/v1/store/orders/', key), 404, 'route_not_found');
    expect(await statusOf(service.db, order)).toBe('pending');
  });
});

describe('a path outside the version segment that does not exist', () => {
  it.each(ALL_METHODS)('returns 404 for %s, with or without a key, and without rate-limit headers', async (method) => {
    for (const withKey of [undefined, key]) {
      const response = await ask(method, '/store/orders', withKey);
      expectErrorResponse(response, 404, 'route_not_found', method);
      expectLimits(response, 'no limits');
    }
  });

  it.each([
    '/',
    '/?',
    '//',
    '/v',
    '/v2/store/orders',
    '/v10/store/orders',
    '/v1.0/store/orders',
    '/v1;a/store/orders',
    '/v1%2fstore/orders',
    '/%76%31/store/orders',
    '/V1/store/orders',
    '//v1/store/orders',
    '/api/v1/store/orders',
    '/health',
    '/health/',
    '/health/live/',
    '/Health/live',
    '/healthz',
    '/metrics',
    '/docs/nothing.js',
    // Files of the Swagger UI package that are not served.
    '/docs/package.json',
    '/docs/README.md',
    '/docs/LICENSE',
    '/docs/index.js',
    '/docs/index.html',
    '/docs/swagger-ui.css.map',
    '/docs/swagger-initializer.js',
    '/docs/oauth2-redirect.html',
    '/docs/..%2f..%2fpackage.json',
    '/docs/%2e%2e/%2e%2e/package.json',
    '/docs/%00',
    '/.env',
    '/favicon.ico',
  ])('returns 404 for %s', async (target) => {
    const response = await ask('GET', target, key);
    expectErrorResponse(response, 404, 'route_not_found');
    expectLimits(response, 'no limits');
  });

  it('returns 404 for an existing path with another method', async () => {
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'TRACE']) {
      expectErrorResponse(await ask(method, '/health/live'), 404, 'route_not_found');
      expectErrorResponse(await ask(method, '/docs'), 404, 'route_not_found');
    }
  });
});
