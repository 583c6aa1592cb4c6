import { insertKey } from '../helpers/builders.js';
import { expectErrorResponse, expectLimits } from '../helpers/expect-error-response.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { exchange } from '../helpers/wire.js';

let service: TestService;
let key: string;
beforeAll(async () => {
  service = await startTestService();
  ({ key } = await insertKey(service.db));
});
afterAll(() => service.stop());
beforeEach(() => {
  service.clock.advance(60_000);
});

/** Stands for the line that carries the key, which is not known when the tables are made. */
const KEY = 'Authorization: Bearer KEY\r\n';
const GET = 'GET /v1/nowhere HTTP/1.1\r\n';
const POST = 'POST /v1/store/orders HTTP/1.1\r\n';
const HOST = 'Host: localhost\r\n';
const withKey = (text: string): string => text.replace('KEY', key);

describe('returns 400 bad_request with limit headers and closes the connection when the request has', () => {
  test.each([
    ['a greeting', 'hello\r\n\r\n'],
    ['a TLS handshake', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
    ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['a method in lower case', `get /v1/store/orders HTTP/1.1\r\n${HOST}${KEY}\r\n`],
    ['a method that nobody knows', `BREW /v1/store/orders HTTP/1.1\r\n${HOST}${KEY}\r\n`],
    ['tabs in the request line', `GET\t/v1/nowhere\tHTTP/1.1\r\n${HOST}${KEY}\r\n`],
    ['a blank in the target', `GET /v1/no where HTTP/1.1\r\n${HOST}${KEY}\r\n`],
    ['a NUL in the target', `GET /v1/no\0where HTTP/1.1\r\n${HOST}${KEY}\r\n`],
    ['a raw byte above ASCII in the target', `GET /v1/caf\xe9 HTTP/1.1\r\n${HOST}${KEY}\r\n`],
    ['a target without a slash', `GET v1/nowhere HTTP/1.1\r\n${HOST}${KEY}\r\n`],
    ['a target of backslashes', `GET \\v1\\nowhere HTTP/1.1\r\n${HOST}${KEY}\r\n`],
    ['a version to come', `GET /v1/nowhere HTTP/1.2\r\n${HOST}${KEY}\r\n`],
    ['no protocol at all', `GET /v1/nowhere FTP/1.1\r\n${HOST}${KEY}\r\n`],
    ['a NUL in a header', `${GET}${HOST}X-A: b\0c\r\n${KEY}\r\n`],
    ['a line feed in a header', `${GET}${HOST}X-A: b\nX-Injected: c\r\n${KEY}\r\n`],
    ['a carriage return in a header', `${GET}${HOST}X-A: b\rX-Injected: c\r\n${KEY}\r\n`],
    ['lines that end in line feeds', `GET /v1/nowhere HTTP/1.1\n${HOST}${KEY}\r\n`],
    ['a blank before the colon of a header', `${GET}${HOST}X-A : b\r\n${KEY}\r\n`],
    ['a header folded over two lines', `${GET}${HOST}X-A: b\r\n c\r\n${KEY}\r\n`],
    ['a header without a name', `${GET}${HOST}: b\r\n${KEY}\r\n`],
    ['a header without a colon', `${GET}${HOST}X-A\r\n${KEY}\r\n`],
    ['two lengths', `${POST}${HOST}${KEY}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd`],
    ['a negative length', `${POST}${HOST}${KEY}Content-Length: -3\r\n\r\n`],
    ['a length with a sign', `${POST}${HOST}${KEY}Content-Length: +3\r\n\r\nabc`],
    ['a length in hexadecimal', `${POST}${HOST}${KEY}Content-Length: 0x3\r\n\r\nabc`],
    [
      'a length and chunks, which two servers would read as two different requests',
      `${POST}${HOST}${KEY}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    ],
    ['a coding that ends in no chunks', `${POST}${HOST}${KEY}Transfer-Encoding: gzip\r\n\r\n`],
    ['chunks inside another coding', `${POST}${HOST}${KEY}Transfer-Encoding: chunked, gzip\r\n\r\n`],
    ['a coding that only looks like chunks', `${POST}${HOST}${KEY}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`],
  ])('%s', async (_what, text) => {
    const { responses, closed } = await exchange(service.port, withKey(text), { until: 'closed' });
    expect(responses).toHaveLength(1);
    expectErrorResponse(responses[0], 400, 'bad_request');
    expectLimits(responses[0], 'limits');
    expect(responses[0]?.headers.get('connection')).toEqual(['close']);
    expect(closed).toBe(true);
  });
});

describe('returns 431 with limit headers and closes the connection when the head exceeds 16 KiB by', () => {
  test.each([
    ['one large header', `${GET}${HOST}${KEY}X-A: ${'a'.repeat(20_000)}\r\n\r\n`],
    ['many headers', `${GET}${HOST}${KEY}${`X-A: ${'b'.repeat(100)}\r\n`.repeat(200)}\r\n`],
    ['a very long target', `GET /v1/${'a'.repeat(20_000)} HTTP/1.1\r\n${HOST}${KEY}\r\n`],
    ['a header that never ends', `${GET}${HOST}${KEY}X-A: ${'a'.repeat(20_000)}`],
    ['a large key', `${GET}${HOST}Authorization: Bearer ${'a'.repeat(20_000)}\r\n\r\n`],
  ])('%s', async (_what, text) => {
    const { responses, closed } = await exchange(service.port, withKey(text), { until: 'closed' });
    expect(responses).toHaveLength(1);
    expectErrorResponse(responses[0], 431, 'request_header_fields_too_large');
    expectLimits(responses[0], 'limits');
    expect(responses[0]?.headers.get('connection')).toEqual(['close']);
    expect(closed).toBe(true);
  });
});

describe('the Host header (RFC 9112 section 3.2)', () => {
  test.each([
    ['missing', KEY],
    ['sent twice', `${HOST}${KEY}Host: localhost\r\n`],
    ['sent twice with two values', `${HOST}${KEY}Host: elsewhere\r\n`],
    ['no host', `Host: local host\r\n${KEY}`],
    ['a path', `Host: localhost/v1\r\n${KEY}`],
  ])(
    'that is %s is answered 400 under the version segment, with limits, and the connection closed',
    async (_what, headers) => {
      const { responses, closed } = await exchange(service.port, withKey(`${GET}${headers}\r\n`), {
        until: 'closed',
        withinMs: 1_500,
      });
      expect(responses).toHaveLength(1);
      expectErrorResponse(responses[0], 400, 'bad_request');
      expectLimits(responses[0], 'limits');
      expect(responses[0]?.headers.get('connection')).toEqual(['close']);
      expect(closed).toBe(true);
    },
  );

  it('that is missing is answered 400 outside the version segment, too', async () => {
    const { responses } = await exchange(service.port, 'GET /health/live HTTP/1.1\r\n\r\n', { until: 'closed' });
    expectErrorResponse(responses[0], 400, 'bad_request');
    expectLimits(responses[0], 'no limits');
  });

  it('may be missing in HTTP/1.0, which closes the connection after the answer', async () => {
    const text = withKey(`GET /v1/nowhere HTTP/1.0\r\n${KEY}\r\n`);
    const { responses, closed } = await exchange(service.port, text, { until: 'closed' });
    expectErrorResponse(responses[0], 404, 'route_not_found');
    expectLimits(responses[0], 'limits');
    expect(closed).toBe(true);
  });

  it('is read to no purpose: any host is as good as another', async () => {
    for (const host of ['api.example.com', '127.0.0.1:3000', '[::1]:3000', '']) {
      const text = withKey(`${GET}Host: ${host}\r\n${KEY}\r\n`);
      const { responses } = await exchange(service.port, text, { until: 1 });
      expectErrorResponse(responses[0], 404, 'route_not_found');
    }
  });
});

describe('requests that HTTP allows and this service has no use for', () => {
  it('are judged like any other: an unknown expectation', async () => {
    const text = withKey(`${GET}${HOST}${KEY}Expect: the-unexpected\r\n\r\n`);
    const { responses } = await exchange(service.port, text, { until: 1 });
    expectErrorResponse(responses[0], 404, 'route_not_found');
    expectLimits(responses[0], 'limits');
  });

  it('are judged like any other: a body that waits to be asked for, which nobody does', async () => {
    const text = withKey(`${POST}${HOST}${KEY}Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc`);
    const { responses } = await exchange(service.port, text, { until: 1 });
    expectErrorResponse(responses[0], 405, 'method_not_allowed');
  });

  it('are judged like any other: an upgrade to another protocol', async () => {
    const text = withKey(`${GET}${HOST}${KEY}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`);
    const { responses } = await exchange(service.port, text, { until: 1 });
    expectErrorResponse(responses[0], 404, 'route_not_found');
  });

  it('are answered in the error shape: a tunnel', async () => {
    const text = withKey(`CONNECT localhost:80 HTTP/1.1\r\n${HOST}${KEY}\r\n`);
    const { responses } = await exchange(service.port, text, { until: 'closed' });
    // Which of the refusals it is does not matter much; that there is one does.
    expect([400, 404, 405]).toContain(responses[0]?.status);
    expectErrorResponse(
      responses[0],
      responses[0]?.status ?? 0,
      { 400: 'bad_request', 404: 'route_not_found', 405: 'method_not_allowed' }[responses[0]?.status ?? 0] ?? '',
    );
  });
});

describe('malformed requests', () => {
  it('count against their address and get 429 when its minute is used up', async () => {
    const remaining: (string | undefined)[] = [];
    for (let number = 0; number < 60; number++) {
      const { responses } = await exchange(service.port, 'hello\r\n\r\n', { until: 'closed' });
      remaining.push(responses[0]?.headers.get('x-ratelimit-remaining')?.[0]);
    }
    expect(remaining).toEqual(Array.from({ length: 60 }, (_, index) => String(59 - index)));
    const { responses } = await exchange(service.port, 'hello\r\n\r\n', { until: 'closed' });
    expectErrorResponse(responses[0], 429, 'rate_limit_exceeded');
    expect(responses[0]?.headers.get('retry-after')).toEqual(['30']);
    expect(responses[0]?.headers.get('connection')).toEqual(['close']);
  });

  it('leave the service working', async () => {
    const noise = Array.from({ length: 200 }, (_, index) =>
      Buffer.from(Array.from({ length: 64 }, (_byte, at) => (index * 131 + at * 17 + ((index * at) % 251)) % 256)),
    );
    for (const bytes of noise) {
      service.clock.advance(2_000);
      const { text } = await exchange(service.port, Buffer.concat([bytes, Buffer.from('\r\n\r\n')]), {
        until: 'closed',
      });
      expect(text).toMatch(/^HTTP\/1\.1 4\d\d /);
    }
    expect((await fetch(`http://127.0.0.1:${service.port}/health/live`)).status).toBe(200);
  });
});
