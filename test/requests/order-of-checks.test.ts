import { call, errorOf } from '../helpers/api.js';
import { insertKey, insertOrder, statusOf } from '../helpers/builders.js';
import { useTestService } from '../helpers/test-service.js';

const context = useTestService({ environment: { RATE_LIMIT_BAN_THRESHOLD: '0' } });

const codeOf = async (method: string, path: string, withKey?: string): Promise<string> =>
  (await errorOf(await call(context.service.baseUrl, method, path, withKey))).code;

async function spentKey(): Promise<string> {
  const small = await insertKey(context.service.db, { requests_per_minute: 1, requests_per_day: 10 });
  await call(context.service.baseUrl, 'HEAD', '/store/orders', small.key);
  return small.key;
}

const REQUESTS: [string, string][] = [
  ['GET', '/store/orders'],
  ['DELETE', '/store/orders/404404'],
  ['PUT', '/store/orders'],
  ['GET', '/%zz'],
];

describe('a request that fails several checks gets the error of the first one', () => {
  it.each(REQUESTS)('the limits of its key: %s %s', async (method, path) => {
    expect(await codeOf(method, path, await spentKey())).toBe('rate_limit_exceeded');
  });

  it('then the limits of its address', async () => {
    for (let number = 0; number < 60; number++) {
      await call(context.service.baseUrl, 'GET', '/store/orders');
    }
    for (const [method, path] of REQUESTS) {
      expect(await codeOf(method, path)).toBe('rate_limit_exceeded');
      expect(await codeOf(method, path, 'not-a-key')).toBe('rate_limit_exceeded');
    }
  });

  it.each(REQUESTS)('then the key: %s %s', async (method, path) => {
    expect(await codeOf(method, path)).toBe('missing_api_key');
    expect(await codeOf(method, path, 'not-a-key')).toBe('invalid_api_key');
  });

  it('then the path, the method, the parameter and the order', async () => {
    expect(await codeOf('PUT', '/store/order', context.key)).toBe('route_not_found');
    expect(await codeOf('PUT', '/store/orders/x', context.key)).toBe('method_not_allowed');
    expect(await codeOf('DELETE', '/store/orders/x', context.key)).toBe('invalid_order_id');
    expect(await codeOf('DELETE', '/store/orders/404404', context.key)).toBe('order_not_found');
  });

  it('and leaves the order pending', async () => {
    const id = await insertOrder(context.service.db);
    const revoked = await insertKey(context.service.db, { revoked_at: new Date() });
    for (const key of [undefined, 'not-a-key', revoked.key, await spentKey()]) {
      await call(context.service.baseUrl, 'DELETE', `/store/orders/${id}`, key);
    }
    await call(context.service.baseUrl, 'DELETE', `/store/orders/0${id}`, context.key);
    expect(await statusOf(context.service.db, id)).toBe('pending');
  });
});
