import { generateKey } from '../../src/api-keys/api-keys.admin.js';
import { call, errorOf } from '../helpers/api.js';
import { insertKey, insertOrder, statusOf } from '../helpers/builders.js';
import { expectErrorResponse, expectLimits } from '../helpers/expect-error-response.js';
import type { WireResponse } from '../helpers/raw-client.js';
import { useTestService } from '../helpers/test-service.js';
import { exchange, requestText, responseTo } from '../helpers/wire.js';

const context = useTestService({ environment: { RATE_LIMIT_BAN_THRESHOLD: '0' } });

const REALM = 'Bearer realm="petstore"';

const ask = (headers: readonly string[], target = '/v1/store/orders'): Promise<WireResponse> =>
  responseTo(context.service.port, 'GET', target, { headers });

describe('a request without a key gets 401 without an error code of RFC 6750', () => {
  // `readBearer` is tested with every other form.
  it.each([
    ['no header', '', []],
    ['the key in other headers', '', ['X-Api-Key: KEY', 'Proxy-Authorization: Bearer KEY', 'Cookie: key=KEY']],
    ['the key in the URL', '?access_token=KEY&api_key=KEY', []],
  ])('%s', async (_what, query, headers) => {
    const withKey = (text: string): string => text.replaceAll('KEY', context.key);
    const response = await ask(headers.map(withKey), `/v1/store/orders${withKey(query)}`);
    expectErrorResponse(response, 401, 'missing_api_key');
    expectLimits(response, 'limits');
    expect(response.headers.get('www-authenticate')).toEqual([REALM]);
  });
});

describe('a request with an invalid key gets 401 with the error code of RFC 6750', () => {
  it.each([
    ['two headers', ['Authorization: Bearer KEY', 'Authorization: Bearer KEY']],
    ['another last character', ['Authorization: Bearer CHANGED']],
  ])('%s', async (_what, headers) => {
    const changed = context.key.slice(0, -1) + (context.key.endsWith('a') ? 'b' : 'a');
    const lines = headers.map((line) => line.replaceAll('KEY', context.key).replace('CHANGED', changed));
    const response = await ask(lines);
    expectErrorResponse(response, 401, 'invalid_api_key');
    expectLimits(response, 'limits');
    expect(response.headers.get('www-authenticate')).toEqual([`${REALM}, error="invalid_token"`]);
  });

  it('an unknown, expired or revoked key, all with the same response byte for byte, looked up before or not', async () => {
    const past = new Date(context.service.clock.now() - 1);
    const keys = {
      unknown: generateKey(),
      expired: (await insertKey(context.service.db, { expires_at: past })).key,
      revoked: (await insertKey(context.service.db, { revoked_at: past })).key,
    };
    for (const attempt of ['first', 'second']) {
      const responses: Record<string, string> = {};
      for (const [kind, token] of Object.entries(keys)) {
        const text = requestText('GET', '/v1/store/orders', { key: token });
        responses[kind] = withoutWhatVaries((await exchange(context.service.port, text, { until: 1 })).text);
      }
      const { unknown } = responses;
      expect({ attempt, ...responses }).toEqual({
        attempt,
        unknown,
        expired: unknown,
        revoked: unknown,
      });
      expect(unknown).toContain('"invalid_api_key"');
    }
  });

  /** The response without the headers that differ between requests: date, request id and limits. */
  function withoutWhatVaries(text: string): string {
    return text.replace(/^(?:date|x-request-id|x-ratelimit-[a-z]+|ratelimit): .*\r\n/gim, '');
  }
});

it('a valid key is admitted until the last millisecond before it expires', async () => {
  const { clock, db, baseUrl } = context.service;
  const { key } = await insertKey(db, { expires_at: new Date(clock.now() + 5_000) });
  const statuses: number[] = [];
  for (const advanceMs of [0, 4_999, 1]) {
    clock.advance(advanceMs);
    statuses.push((await call(baseUrl, 'HEAD', '/store/orders', key)).status);
  }
  expect(statuses).toEqual([200, 200, 401]);
});

describe('a request that fails several checks gets the error of the first one', () => {
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

  it.each(REQUESTS)('the limits of the key come before the operation: %s %s', async (method, path) => {
    expect(await codeOf(method, path, await spentKey())).toBe('rate_limit_exceeded');
  });

  it('the limits of the address come before the key', async () => {
    for (let number = 0; number < 60; number++) {
      await call(context.service.baseUrl, 'GET', '/store/orders');
    }
    for (const [method, path] of REQUESTS) {
      expect(await codeOf(method, path)).toBe('rate_limit_exceeded');
      expect(await codeOf(method, path, 'not-a-key')).toBe('rate_limit_exceeded');
    }
  });

  it.each(REQUESTS)('the key comes before the operation: %s %s', async (method, path) => {
    expect(await codeOf(method, path)).toBe('missing_api_key');
    expect(await codeOf(method, path, 'not-a-key')).toBe('invalid_api_key');
  });

  it('with a valid key, the path comes first, then the method, the parameter and the order', async () => {
    expect(await codeOf('PUT', '/store/order', context.key)).toBe('route_not_found');
    expect(await codeOf('PUT', '/store/orders/x', context.key)).toBe('method_not_allowed');
    expect(await codeOf('DELETE', '/store/orders/x', context.key)).toBe('invalid_order_id');
    expect(await codeOf('DELETE', '/store/orders/404404', context.key)).toBe('order_not_found');
  });

  it('when any check fails, the order stays pending', async () => {
    const id = await insertOrder(context.service.db);
    const revoked = await insertKey(context.service.db, { revoked_at: new Date() });
    for (const key of [undefined, 'not-a-key', revoked.key, await spentKey()]) {
      await call(context.service.baseUrl, 'DELETE', `/store/orders/${id}`, key);
    }
    await call(context.service.baseUrl, 'DELETE', `/store/orders/0${id}`, context.key);
    expect(await statusOf(context.service.db, id)).toBe('pending');
  });
});
