import { insertOrder, statusOf } from '../helpers/builders.js';
import { expectErrorResponse, expectLimits } from '../helpers/expect-error-response.js';
import { useTestService } from '../helpers/test-service.js';
import { responseTo, type WireResponse } from '../helpers/wire.js';

describe('a request target', () => {
  const context = useTestService();

  const ask = (method: string, target: string, key?: string): Promise<WireResponse> =>
    responseTo(context.service.port, method, target, { key });

  async function expectKeyNeeded(method: string, target: string, status: number, code: string): Promise<void> {
    const [response, anonymous] = [await ask(method, target, context.key), await ask(method, target)];
    expectErrorResponse(response, status, code);
    expectLimits(response, 'limits');
    expect([...response.headers.keys()]).not.toContain('x-injected');
    expectErrorResponse(anonymous, 401, 'missing_api_key');
    expectLimits(anonymous, 'limits');
  }

  describe('with invalid or unexpected percent-encoding', () => {
    it.each(['%', '%zz', '1%', '%1', '%ff', '%c3%28', '%00', '1%00', '1%0d%0aX-Injected:%20yes', '%F0%9F%90%B6'])(
      'returns 400 invalid_order_id with a key and 401 without one: %s',
      async (id) => {
        await expectKeyNeeded('DELETE', `/v1/store/orders/${id}`, 400, 'invalid_order_id');
      },
    );

    it.each(['/v1/%', '/v1/%zz/%', '/v1/store/%ff', '/v1%', '/%', '/%zz', '/docs/%zz', '/health/%ff'])(
      'returns 404: %s',
      async (target) => {
        expectErrorResponse(await ask('GET', target, context.key), 404, 'route_not_found');
      },
    );

    it('is accepted when it is in the query only', async () => {
      const id = await insertOrder(context.service.db);
      expect((await ask('DELETE', `/v1/store/orders/${id}?discount=100%`, context.key)).status).toBe(204);
      expect(await statusOf(context.service.db, id)).toBe('cancelled');
    });
  });

  describe('in absolute form, as clients send it to a proxy', () => {
    it('reaches the operation of its path', async () => {
      const id = await insertOrder(context.service.db);
      expect((await ask('DELETE', `http://localhost/v1/store/orders/${id}`, context.key)).status).toBe(204);
      expect(await statusOf(context.service.db, id)).toBe('cancelled');
      expect((await ask('HEAD', 'https://api.example.com:8443/v1/store/orders', context.key)).status).toBe(200);
    });

    // `pathOf` is tested with every other form.
    it.each(['http://localhost/v1/nowhere', 'http://localhost:port/v1/nowhere', 'http://[::1]:80/v1/nowhere'])(
      'requires a key and gets rate-limit headers when its path is under /v1: %s',
      async (target) => {
        await expectKeyNeeded('GET', target, 404, 'route_not_found');
      },
    );

    it('returns 404 without rate-limit headers when its path is not under /v1', async () => {
      const response = await ask('GET', 'http://localhost/V1/store/orders', context.key);
      expectErrorResponse(response, 404, 'route_not_found');
      expectLimits(response, 'no limits');
    });

    it('is / without a path, also with a query', async () => {
      const response = await ask('GET', 'http://localhost?/v1', context.key);
      expect([response.status, JSON.parse(response.body)]).toEqual([200, expect.objectContaining({ api: '/v1' })]);
      expectLimits(response, 'no limits');
    });
  });

  it.each(['http://[/', 'http://[::1/v1/store/orders', 'http://::1]/v1/store/orders'])(
    'returns 400 bad_request when it is not a valid URL: %s',
    async (target) => {
      for (const method of ['GET', 'DELETE', 'OPTIONS']) {
        expectErrorResponse(await ask(method, target, context.key), 400, 'bad_request');
      }
    },
  );

  it('of * returns 404 without rate-limit headers', async () => {
    const response = await ask('OPTIONS', '*', context.key);
    expectErrorResponse(response, 404, 'route_not_found');
    expectLimits(response, 'no limits');
  });

  it('is read without its fragment', async () => {
    for (const target of ['/v1/nowhere#part', '/v1#part']) {
      await expectKeyNeeded('GET', target, 404, 'route_not_found');
    }
  });

  it('of nearly 16 KiB gets the same errors as a short one', async () => {
    const response = await ask('DELETE', `/v1/store/orders/${'1'.repeat(15_000)}`, context.key);
    expectErrorResponse(response, 400, 'invalid_order_id');
    expectErrorResponse(await ask('GET', `/v1/${'a/'.repeat(7_500)}`, context.key), 404, 'route_not_found');
    expectErrorResponse(
      await ask('GET', `/v1/store/orders/x?${'a=b&'.repeat(3_500)}`, context.key),
      405,
      'method_not_allowed',
    );
  });
});
