import { insertOrder, statusOf } from '../helpers/builders.js';
import { expectErrorResponse, expectLimits } from '../helpers/expect-error-response.js';
import type { WireResponse } from '../helpers/raw-client.js';
import { useTestService } from '../helpers/test-service.js';
import { exchange, requestText, responseTo } from '../helpers/wire.js';

const context = useTestService({ environment: { RATE_LIMIT_BAN_THRESHOLD: '0' } });

const ask = (method: string, target: string, key?: string): Promise<WireResponse> =>
  responseTo(context.service.port, method, target, { key });

describe('a method that a path does not support returns 405 with Allow', () => {
  const LIST = '/v1/store/orders';

  it.each([
    ['POST', LIST, 'GET, HEAD'],
    ['PROPFIND', LIST, 'GET, HEAD'],
    ['GET', `${LIST}/ORDER`, 'DELETE'],
    ['HEAD', `${LIST}/ORDER`, 'DELETE'],
  ])('%s %s', async (method, path, allow) => {
    const order = await insertOrder(context.service.db);
    const response = await ask(method, path.replace('ORDER', order), context.key);
    expectErrorResponse(response, 405, 'method_not_allowed', method);
    expectLimits(response, 'limits');
    expect(response.headers.get('allow')).toEqual([allow]);
    expect(await statusOf(context.service.db, order)).toBe('pending');
  });

  it('also with a body, and keeps the connection open', async () => {
    const headers = ['Content-Type: application/json', 'Content-Length: 2'];
    const post = requestText('POST', LIST, { key: context.key, headers, body: '{}' });
    const { responses } = await exchange(context.service.port, post + post, { until: 2 });
    expectErrorResponse(responses[0], 405, 'method_not_allowed');
    expectErrorResponse(responses[1], 405, 'method_not_allowed');
  });
});

describe('a path under the version segment that does not exist returns 404 with a key and 401 without', () => {
  it.each([
    ['GET', '/v1'],
    ['HEAD', '/v1/pets/1'],
    ['POST', '/v1/pets/1'],
    ['GET', '/v1/store/orders/'],
    ['GET', '/v1/../v1/store/orders'],
    ['GET', '/v1/store%2forders'],
    ['GET', '/v1/store/%ff'],
    // In absolute form, as clients send it to a proxy.
    ['GET', 'http://localhost/v1/nowhere'],
  ])('%s %s', async (method, target) => {
    const [response, anonymous] = [await ask(method, target, context.key), await ask(method, target)];
    expectErrorResponse(response, 404, 'route_not_found', method);
    expectLimits(response, 'limits');
    expectErrorResponse(anonymous, 401, 'missing_api_key', method);
    expectLimits(anonymous, 'limits');
  });

  it('for an order with a trailing slash, which is not cancelled', async () => {
    const order = await insertOrder(context.service.db);
    expectErrorResponse(await ask('DELETE', `/v1/store/orders/${order}/`, context.key), 404, 'route_not_found');
    expect(await statusOf(context.service.db, order)).toBe('pending');
  });
});

describe('a path outside the version segment that does not exist returns 404 without rate-limit headers', () => {
  it.each([
    ['GET', '/store/orders'],
    ['GET', '/V1/store/orders'],
    ['GET', '//v1/store/orders'],
    ['GET', '/%zz'],
    ['OPTIONS', '*'],
    ['POST', '/health/live'],
    ['GET', '/metrics'],
    // A file of the Swagger UI package that is not served.
    ['GET', '/docs/package.json'],
    ['GET', '/docs/%2e%2e/%2e%2e/package.json'],
  ])('%s %s', async (method, target) => {
    for (const key of [undefined, context.key]) {
      const response = await ask(method, target, key);
      expectErrorResponse(response, 404, 'route_not_found', method);
      expectLimits(response, 'no limits');
    }
  });
});

describe('a target reaches its operation', () => {
  it.each([
    ['in absolute form', 'http://localhost/v1/store/orders/ID'],
    ['with invalid percent-encoding in its query', '/v1/store/orders/ID?discount=100%'],
  ])('%s', async (_what, target) => {
    const id = await insertOrder(context.service.db);
    expect((await ask('DELETE', target.replace('ID', id), context.key)).status).toBe(204);
    expect(await statusOf(context.service.db, id)).toBe('cancelled');
  });
});
