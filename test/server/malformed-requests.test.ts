import { expectErrorResponse, expectLimits } from '../helpers/expect-error-response.js';
import { useTestService } from '../helpers/test-service.js';
import { exchange } from '../helpers/wire.js';

const context = useTestService();

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

describe('the Host header (RFC 9112 section 3.2)', () => {
  // `framingError` is tested with every other form.
  test.each([
    ['missing', KEY],
    ['sent twice with the same value', `${HOST}${KEY}Host: localhost\r\n`],
  ])(
    'that is %s gets 400 with rate-limit headers under the version segment, and the connection is closed',
    async (_what, headers) => {
      await expectOneError(`${GET}${headers}\r\n`, 400, 'bad_request', 'limits');
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
