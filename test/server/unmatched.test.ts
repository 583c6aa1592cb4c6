import { METHODS } from 'node:http';
import { insertOrder, statusOf } from '../helpers/builders.js';
import { expectErrorResponse, expectLimits } from '../helpers/expect-error-response.js';
import { useTestService } from '../helpers/test-service.js';
import { exchange, requestText, responseTo, type WireResponse } from '../helpers/wire.js';

const context = useTestService();
let order: string;
beforeAll(async () => {
  order = await insertOrder(context.service.db);
});

/** Every method that the HTTP parser accepts, except CONNECT, which has no path. */
const ALL_METHODS = METHODS.filter((method) => method !== 'CONNECT');

const ask = (method: string, target: string, key?: string): Promise<WireResponse> =>
  responseTo(context.service.port, method, target, { key });

describe('a method that a path does not support', () => {
  it.each([
    ...ALL_METHODS.filter((method) => method !== 'GET' && method !== 'HEAD').map((method) => [method, '', 'GET, HEAD']),
    ...ALL_METHODS.filter((method) => method !== 'DELETE').map((method) => [method, '/ORDER', 'DELETE']),
  ])('returns 405 with Allow for %s /v1/store/orders%s', async (method = '', path = '', allow = '') => {
    const response = await ask(method, `/v1/store/orders${path.replace('ORDER', order)}`, context.key);
    expectErrorResponse(response, 405, 'method_not_allowed', method);
    expectLimits(response, 'limits');
    expect(response.headers.get('allow')).toEqual([allow]);
    expect(await statusOf(context.service.db, order)).toBe('pending');
  });

  it('returns 405 for a request with a body, and keeps the connection open', async () => {
    const body = JSON.stringify({ petId: 1 });
    const post = requestText('POST', '/v1/store/orders', {
      key: context.key,
      headers: ['Content-Type: application/json', `Content-Length: ${body.length}`],
      body,
    });
    const { responses } = await exchange(context.service.port, post + post, { until: 2 });
    expectErrorResponse(responses[0], 405, 'method_not_allowed');
    expectErrorResponse(responses[1], 405, 'method_not_allowed');
  });
});

describe('a path under the version segment that does not exist', () => {
  it.each(ALL_METHODS)('returns 404 for %s with a key, and 401 without', async (method) => {
    const response = await ask(method, '/v1/pets/1', context.key);
    expectErrorResponse(response, 404, 'route_not_found', method);
    expectLimits(response, 'limits');
    const anonymous = await ask(method, '/v1/pets/1');
    expectErrorResponse(anonymous, 401, 'missing_api_key', method);
    expectLimits(anonymous, 'limits');
  });

  it.each([
    ['the version segment alone', '/v1'],
    ['the version segment and a slash', '/v1/'],
    ['a trailing slash after the list', '/v1/store/orders/'],
    ['two slashes after the version segment', '/v1//store/orders'],
    ['a capital letter', '/v1/Store/orders'],
    ['a dot segment', '/v1/./store/orders'],
    ['a double-dot segment', '/v1/../v1/store/orders'],
    ['an encoded slash', '/v1/store%2forders'],
    ['an encoded question mark', '/v1/store/orders%3f'],
    ['a path parameter', '/v1/store/orders;a=b'],
  ])('returns 404 for %s', async (_what, target) => {
    const response = await ask('GET', target, context.key);
    expectErrorResponse(response, 404, 'route_not_found');
    expectLimits(response, 'limits');
    expectErrorResponse(await ask('GET', target), 401, 'missing_api_key');
  });

  it('returns 404 for an order with a trailing slash, which is not cancelled', async () => {
    expectErrorResponse(await ask('DELETE', `/v1/store/orders/${order}/`, context.key), 404, 'route_not_found');
    expectErrorResponse(await ask('DELETE', '/v1/store/orders/', context.key), 404, 'route_not_found');
    expect(await statusOf(context.service.db, order)).toBe('pending');
  });
});

describe('a path outside the version segment that does not exist', () => {
  it.each(ALL_METHODS)('returns 404 for %s, with or without a key, and without rate-limit headers', async (method) => {
    for (const withKey of [undefined, context.key]) {
      const response = await ask(method, '/store/orders', withKey);
      expectErrorResponse(response, 404, 'route_not_found', method);
      expectLimits(response, 'no limits');
    }
  });

  // Which paths are under the version segment is tested with `pathOf`.
  it.each([
    '/v2/store/orders',
    '/V1/store/orders',
    '//v1/store/orders',
    '/health',
    '/health/live/',
    '/Health/live',
    '/metrics',
    '/docs/nothing.js',
    // Files of the Swagger UI package that are not served.
    '/docs/package.json',
    '/docs/README.md',
    '/docs/index.html',
    '/docs/swagger-initializer.js',
    '/docs/..%2f..%2fpackage.json',
    '/docs/%2e%2e/%2e%2e/package.json',
    '/docs/%00',
    '/.env',
  ])('returns 404 for %s', async (target) => {
    const response = await ask('GET', target, context.key);
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
