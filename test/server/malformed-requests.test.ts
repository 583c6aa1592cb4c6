import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { insertOrder } from '../helpers/builders.js';
import { expectErrorResponse, expectLimits } from '../helpers/expect-error-response.js';
import { lockOrder, untilLockWaits } from '../helpers/lock-waits.js';
import { useTestService } from '../helpers/test-service.js';
import { exchange } from '../helpers/wire.js';

const context = useTestService();

/** With a placeholder for the key, which does not exist yet when the tables are built. */
const KEY = 'Authorization: Bearer KEY\r\n';
const GET = 'GET /v1/nowhere HTTP/1.1\r\n';
const POST = 'POST /v1/store/orders HTTP/1.1\r\n';
const HOST = 'Host: localhost\r\n';
const withKey = (text: string): string => text.replace('KEY', context.key);

/** Expects one error with rate-limit headers, after which the connection is closed. */
async function expectOneError(text: string, status: number, code: string): Promise<void> {
  const { responses, closed } = await exchange(context.service.port, withKey(text), { until: 'closed' });
  expect(responses).toHaveLength(1);
  expectErrorResponse(responses[0], status, code);
  expectLimits(responses[0], 'limits');
  expect(responses[0]?.headers.get('connection')).toEqual(['close']);
  expect(closed).toBe(true);
}

describe('returns 400 bad_request with rate-limit headers and closes the connection for', () => {
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

describe('returns 431 with rate-limit headers and closes the connection when the head exceeds 16 KiB because of', () => {
  test.each([
    ['one large header', `${GET}${HOST}${KEY}X-A: ${'a'.repeat(20_000)}\r\n\r\n`],
    ['many headers', `${GET}${HOST}${KEY}${`X-A: ${'b'.repeat(100)}\r\n`.repeat(200)}\r\n`],
    ['a very long target', `GET /v1/${'a'.repeat(20_000)} HTTP/1.1\r\n${HOST}${KEY}\r\n`],
    ['a header without an end', `${GET}${HOST}${KEY}X-A: ${'a'.repeat(20_000)}`],
  ])('%s', async (_what, text) => {
    await expectOneError(text, 431, 'request_header_fields_too_large');
  });
});

describe('the Host header (RFC 9112 section 3.2)', () => {
  // `framingError` is tested with every other form.
  test.each([
    ['missing', KEY],
    ['sent twice with the same value', `${HOST}${KEY}Host: localhost\r\n`],
  ])(
    'that is %s gets 400 with rate-limit headers under the version segment, and the connection is closed',
    async (_what, headers) => {
      await expectOneError(`${GET}${headers}\r\n`, 400, 'bad_request');
    },
  );

  it('that is missing gets 400 outside the version segment too', async () => {
    const { responses } = await exchange(context.service.port, 'GET /health/live HTTP/1.1\r\n\r\n', {
      until: 'closed',
    });
    expectErrorResponse(responses[0], 400, 'bad_request');
    expectLimits(responses[0], 'no limits');
  });

  it('may be missing in HTTP/1.0; the connection is closed after the response', async () => {
    const text = withKey(`GET /v1/nowhere HTTP/1.0\r\n${KEY}\r\n`);
    const { responses, closed } = await exchange(context.service.port, text, { until: 'closed' });
    expectErrorResponse(responses[0], 404, 'route_not_found');
    expectLimits(responses[0], 'limits');
    expect(closed).toBe(true);
  });
});

it('a request that times out behind a pending response gets 408 after it, and what follows is not executed', async () => {
  const { app, db } = context.service;
  await insertOrder(db, { id: '1' });
  const unlock = await lockOrder(db, '1');
  const client = connect(context.service.port, '127.0.0.1');
  const [connection] = (await once(app.getHttpServer(), 'connection')) as [Socket];
  client.write(withKey(`DELETE /v1/store/orders/1 HTTP/1.1\r\n${HOST}${KEY}\r\n`));
  await untilLockWaits(db);
  app.getHttpServer().emit('clientError', Object.assign(new Error(), { code: 'ERR_HTTP_REQUEST_TIMEOUT' }), connection);
  client.write(`GET /health/live HTTP/1.1\r\n${HOST}\r\n`.repeat(3));
  await unlock();
  expect((await text(client)).match(/^HTTP.*(?=\r)/gm)).toEqual([
    'HTTP/1.1 204 No Content',
    'HTTP/1.1 408 Request Timeout',
  ]);
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

describe('malformed requests', () => {
  it('count against their address and get 429 when its limit per minute is reached', async () => {
    const remaining: (string | undefined)[] = [];
    for (let number = 0; number < 60; number++) {
      const { responses } = await exchange(context.service.port, 'hello\r\n\r\n', { until: 'closed' });
      remaining.push(responses[0]?.headers.get('x-ratelimit-remaining')?.[0]);
    }
    expect(remaining).toEqual(Array.from({ length: 60 }, (_, index) => String(59 - index)));
    const { responses } = await exchange(context.service.port, 'hello\r\n\r\n', { until: 'closed' });
    expectErrorResponse(responses[0], 429, 'rate_limit_exceeded');
    expect(responses[0]?.headers.get('retry-after')).toEqual(['30']);
    expect(responses[0]?.headers.get('connection')).toEqual(['close']);
  });
});
