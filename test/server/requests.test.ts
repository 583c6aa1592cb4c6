import { call, errorOf } from '../helpers/api.js';
import { insertKey, insertOrder, statusOf } from '../helpers/builders.js';
import { expectErrorResponse, expectLimits } from '../helpers/expect-error-response.js';
import { useTestService } from '../helpers/test-service.js';
import { type WireResponse, exchange, requestText, responseTo } from '../helpers/wire.js';

const context = useTestService({ environment: { RATE_LIMIT_BAN_THRESHOLD: '0' } });

const ask = (method: string, target: string, key?: string): Promise<WireResponse> =>
  responseTo(context.service.port, method, target, { key });

describe('a request target', () => {
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

    it.each([
      'http://localhost/v1/nowhere',
      'http://localhost:port/v1/nowhere',
      'HTTP://[::1]:80/v1',
      'http://[/v1/nowhere',
    ])('requires a key and gets rate-limit headers when its path is under /v1: %s', async (target) => {
      await expectKeyNeeded('GET', target, 404, 'route_not_found');
    });

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

describe('paths and methods without an operation', () => {
  let order: string;
  beforeAll(async () => {
    order = await insertOrder(context.service.db);
  });

  const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND'];

  describe('a method that a path does not support', () => {
    it.each([
      ...METHODS.filter((method) => method !== 'GET' && method !== 'HEAD').map((method) => [method, '', 'GET, HEAD']),
      ...METHODS.filter((method) => method !== 'DELETE').map((method) => [method, '/ORDER', 'DELETE']),
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
    it.each(METHODS)('returns 404 for %s with a key, and 401 without', async (method) => {
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
    it.each(METHODS)('returns 404 for %s, with or without a key, and without rate-limit headers', async (method) => {
      for (const withKey of [undefined, context.key]) {
        const response = await ask(method, '/store/orders', withKey);
        expectErrorResponse(response, 404, 'route_not_found', method);
        expectLimits(response, 'no limits');
      }
    });

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
});

/** A request that fails several checks gets the error of the first one. */
describe('the order of the checks', () => {
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
    ['DELETE', '/store/orders/x'],
    ['PUT', '/store/orders'],
    ['PUT', '/store/orders/x'],
    ['GET', '/nowhere'],
    ['GET', '/%zz'],
    ['GET', '/'],
  ];

  it.each(REQUESTS)('checks the limits of a key first: %s %s', async (method, path) => {
    expect(await codeOf(method, path, await spentKey())).toBe('rate_limit_exceeded');
  });

  it('checks the limits of an address before the key', async () => {
    for (let number = 0; number < 60; number++) {
      await call(context.service.baseUrl, 'GET', '/store/orders');
    }
    for (const [method, path] of REQUESTS) {
      expect(await codeOf(method, path)).toBe('rate_limit_exceeded');
      expect(await codeOf(method, path, 'not-a-key')).toBe('rate_limit_exceeded');
    }
  });

  it.each(REQUESTS)('checks the key before path, method and parameter: %s %s', async (method, path) => {
    expect(await codeOf(method, path)).toBe('missing_api_key');
    expect(await codeOf(method, path, 'not-a-key')).toBe('invalid_api_key');
  });

  it('checks the path, then the method, then the parameter, then the order', async () => {
    expect(await codeOf('PUT', '/store/order', context.key)).toBe('route_not_found');
    expect(await codeOf('PUT', '/store/orders/x', context.key)).toBe('method_not_allowed');
    expect(await codeOf('DELETE', '/store/orders/x', context.key)).toBe('invalid_order_id');
    expect(await codeOf('DELETE', '/store/orders/404404', context.key)).toBe('order_not_found');
  });

  it('leaves an order pending when any check fails', async () => {
    const id = await insertOrder(context.service.db);
    await call(context.service.baseUrl, 'DELETE', `/store/orders/${id}`);
    await call(context.service.baseUrl, 'DELETE', `/store/orders/${id}`, 'not-a-key');
    const revoked = await insertKey(context.service.db, { revoked_at: new Date() });
    await call(context.service.baseUrl, 'DELETE', `/store/orders/${id}`, revoked.key);
    await call(context.service.baseUrl, 'DELETE', `/store/orders/${id}`, await spentKey());
    await call(context.service.baseUrl, 'DELETE', `/store/orders/0${id}`, context.key);
    expect(await statusOf(context.service.db, id)).toBe('pending');
  });
});

describe('malformed requests', () => {
  /** With a placeholder for the key, which does not exist yet when the tables are built. */
  const KEY = 'Authorization: Bearer KEY\r\n';
  const GET = 'GET /v1/nowhere HTTP/1.1\r\n';
  const POST = 'POST /v1/store/orders HTTP/1.1\r\n';
  const HOST = 'Host: localhost\r\n';
  const withKey = (text: string): string => text.replace('KEY', context.key);

  /** Expects one error, after which the connection is closed. Input that never becomes a request has no limits. */
  async function expectOneError(
    text: string,
    status: number,
    code: string,
    limits: 'limits' | 'no limits' = 'no limits',
  ): Promise<void> {
    const { responses, closed } = await exchange(context.service.port, withKey(text), { until: 'closed' });
    expect(responses).toHaveLength(1);
    expectErrorResponse(responses[0], status, code);
    expectLimits(responses[0], limits);
    expect(responses[0]?.headers.get('connection')).toEqual(['close']);
    expect(closed).toBe(true);
  }

  describe('returns 400 bad_request and closes the connection for', () => {
    test.each([
      ['text that is not HTTP', 'hello\r\n\r\n'],
      ['a TLS handshake', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
      ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
      ['an unknown method', `BREW /v1/store/orders HTTP/1.1\r\n${HOST}${KEY}\r\n`],
      ['a space in the target', `GET /v1/no where HTTP/1.1\r\n${HOST}${KEY}\r\n`],
      ['a NUL in the target', `GET /v1/no\0where HTTP/1.1\r\n${HOST}${KEY}\r\n`],
      ['a byte above ASCII in the target', `GET /v1/caf\xe9 HTTP/1.1\r\n${HOST}${KEY}\r\n`],
      ['a target without a leading slash', `GET v1/nowhere HTTP/1.1\r\n${HOST}${KEY}\r\n`],
      ['an unsupported HTTP version', `GET /v1/nowhere HTTP/1.2\r\n${HOST}${KEY}\r\n`],
      ['a NUL in a header', `${GET}${HOST}X-A: b\0c\r\n${KEY}\r\n`],
      ['a line feed in a header', `${GET}${HOST}X-A: b\nX-Injected: c\r\n${KEY}\r\n`],
      ['a carriage return in a header', `${GET}${HOST}X-A: b\rX-Injected: c\r\n${KEY}\r\n`],
      ['a request line that ends in a bare line feed', `GET /v1/nowhere HTTP/1.1\n${HOST}${KEY}\r\n`],
      ['a space before the colon of a header', `${GET}${HOST}X-A : b\r\n${KEY}\r\n`],
      ['a header folded over two lines', `${GET}${HOST}X-A: b\r\n c\r\n${KEY}\r\n`],
      ['two Content-Length headers', `${POST}${HOST}${KEY}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd`],
      [
        'Content-Length together with Transfer-Encoding',
        `${POST}${HOST}${KEY}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      ],
      [
        'a Transfer-Encoding in which chunked is not the last coding',
        `${POST}${HOST}${KEY}Transfer-Encoding: chunked, gzip\r\n\r\n`,
      ],
    ])('%s', async (_what, text) => {
      await expectOneError(text, 400, 'bad_request');
    });
  });

  describe('returns 431 and closes the connection when the head exceeds 16 KiB because of', () => {
    test.each([
      ['one large header', `${GET}${HOST}${KEY}X-A: ${'a'.repeat(20_000)}\r\n\r\n`],
      ['many headers', `${GET}${HOST}${KEY}${`X-A: ${'b'.repeat(100)}\r\n`.repeat(200)}\r\n`],
      ['a very long target', `GET /v1/${'a'.repeat(20_000)} HTTP/1.1\r\n${HOST}${KEY}\r\n`],
      ['a header without an end', `${GET}${HOST}${KEY}X-A: ${'a'.repeat(20_000)}`],
    ])('%s', async (_what, text) => {
      await expectOneError(text, 431, 'request_header_fields_too_large');
    });
  });

  it('get their error in full although more input follows', async () => {
    const { responses } = await exchange(context.service.port, 'hello\r\n\r\n', {
      until: 'closed',
      thenSend: 'hello\r\n\r\n',
    });
    expect(responses).toHaveLength(1);
    expectErrorResponse(responses[0], 400, 'bad_request');
  });

  describe('HTTP features that the service does not support', () => {
    test.each([
      ['an unknown expectation', `${GET}${HOST}${KEY}Expect: the-unexpected\r\n\r\n`, 404, 'route_not_found'],
      ['an upgrade', `${GET}${HOST}${KEY}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`, 404, 'route_not_found'],
      [
        '100-continue',
        `${POST}${HOST}${KEY}Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc`,
        405,
        'method_not_allowed',
      ],
    ])('%s: the request gets its final response at once', async (_what, text, status, code) => {
      const { responses } = await exchange(context.service.port, withKey(text), { until: 1 });
      expectErrorResponse(responses[0], status, code);
      expectLimits(responses[0], 'limits');
    });
  });

  it('input that never becomes a request counts against nobody', async () => {
    const remaining = async (): Promise<number> => {
      const { headers } = await fetch(`${context.service.baseUrl}/v1/nowhere`);
      return Number(headers.get('x-ratelimit-remaining'));
    };
    const before = await remaining();
    for (let number = 0; number < 70; number++) {
      const { responses } = await exchange(context.service.port, 'hello\r\n\r\n', { until: 'closed' });
      expectErrorResponse(responses[0], 400, 'bad_request');
    }
    expect(await remaining()).toBe(before - 1);
  });
});
