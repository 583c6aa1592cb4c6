import { insertOrder, statusOf } from '../helpers/builders.js';
import { expectErrorResponse } from '../helpers/expect-error-response.js';
import { fuzzConnection } from '../helpers/fuzz-connection.js';
import { RawClient } from '../helpers/raw-client.js';
import { useServiceProcess } from '../helpers/service-process.js';
import { useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { exchange, parseResponses, requestText, responseTo } from '../helpers/wire.js';

describe('connections that are reset', () => {
  // In its own process, because an unhandled error would end it.
  const context = useServiceProcess();

  const LIST = (): string => requestText('GET', '/v1/store/orders', { key: context.key });

  describe('a client that resets its connection', () => {
    it.each([
      ['after CONNECT', () => 'CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n'],
      [
        'after a request for a protocol upgrade',
        () => requestText('GET', '/v1/nowhere', { headers: ['Connection: Upgrade', 'Upgrade: h2c'] }),
      ],
      ['after malformed input', () => 'hello\r\n\r\n'],
      ['after half a request', () => 'GET /v1/store/orders HTTP/1.1\r\nHost: loc'],
      ['after a cancel', () => requestText('DELETE', '/v1/store/orders/1', { key: context.key })],
      ['after many pipelined requests', () => LIST().repeat(50)],
      [
        'in the middle of a body',
        () => requestText('POST', '/v1/store/orders', { headers: ['Content-Length: 99'], body: 'a' }),
      ],
    ])('%s leaves the service ready and causes no error in the log', async (_what, text) => {
      for (let round = 0; round < 20; round++) {
        const { socket } = await RawClient.open(context.service.port, text());
        if (round % 2 === 0) {
          // As much later as a request to another connection takes: some of these get no response.
          await fetch(`${context.service.baseUrl}/health/live`);
        }
        socket.resetAndDestroy();
      }
      expect((await fetch(`${context.service.baseUrl}/health/ready`)).status).toBe(200);
      expect(context.service.output).not.toMatch(/"level":(?:50|60)|uncaught|unhandled/i);
    });
  });

  it('never uses the first of two Authorization headers, however many others are between them', async () => {
    const headers = [...Array<string>(2_100).fill('a:'), `Authorization: Bearer ${context.key}`];
    const { status } = await responseTo(context.service.port, 'GET', '/v1/nowhere', { key: context.key, headers });
    // From Node 22 on, the head is too large.
    expect([401, 431]).toContain(status);
  });

  it('closes the connection of a client that has sent nothing, and responds 408 to one that sends its head slowly', async () => {
    const silent = await RawClient.open(context.service.port);
    const slow = await RawClient.open(context.service.port, 'GET /v1/nowhere HTTP/1.1\r\nHost: localhost\r\nX-Slow: ');
    const drip = setInterval(() => slow.socket.write('a'), 500);
    try {
      // The timeout of a head, and the interval of its check.
      await waitFor(() => silent.closed && slow.closed, 'both are closed', { withinMs: 25_000 });
    } finally {
      clearInterval(drip);
    }
    expect(silent.received.length).toBe(0);
    expect(slow.responses).toHaveLength(1);
    expectErrorResponse(slow.responses[0], 408, 'request_timeout');
  });
});

describe('request smuggling', () => {
  const context = useTestService();

  /**
   * Requests whose end a proxy and the service might find at different places, so that the service reads the rest of a body
   * as a request that the proxy has not seen. VICTIM is replaced by a cancel, LENGTH by the length of the body.
   */
  const CHUNKED = 'Transfer-Encoding: chunked';
  const LENGTH = 'Content-Length: LENGTH';
  /** Around each of them, chunks that end before the victim. */
  const HEADERS: readonly string[][] = [
    [LENGTH, CHUNKED],
    [CHUNKED, LENGTH],
    [CHUNKED, 'Transfer-Encoding: identity'],
    ['Transfer-Encoding: identity', CHUNKED],
    ['Transfer-Encoding: gzip, chunked'],
    ['Transfer-Encoding:', CHUNKED],
    ['Transfer-Encoding:', LENGTH],
    [CHUNKED, CHUNKED],
    [LENGTH, 'Transfer-Encoding: "chunked"'],
    [LENGTH, 'Transfer-Encoding: chunked;q=1'],
    [LENGTH, 'Transfer-Encoding: \x0bchunked'],
    [LENGTH, 'Transfer-Encoding: \0chunked'],
    [LENGTH, 'Transfer-Encoding : chunked'],
    [LENGTH, 'Transfer-Encoding:', ' chunked'],
    [LENGTH, 'X-A: b\nTransfer-Encoding: chunked'],
    [LENGTH, 'X-A: b\rTransfer-Encoding: chunked'],
  ];
  const LENGTHS: readonly string[][] = [
    ['Content-Length: 0', LENGTH],
    ['Content-Length: 0, LENGTH'],
    ['Content-Length: +0'],
    ['Content-Length: 0o0'],
    ['Content-Length: 0 0'],
    ['Content-Length : 0'],
    ['Content-Length: 18446744073709551616'],
  ];
  const CHUNKS: readonly string[] = [
    ...['0x0\r\n\r\nVICTIM', '-0\r\n\r\nVICTIM', ' 0\r\n\r\nVICTIM', '10000000000000000\r\n\r\nVICTIM', '0\n\nVICTIM'],
    // An extension with a line break, data longer than its size, and without its line end.
    ...['1;a\nb\r\n0\r\n\r\nVICTIM', '0;\rVICTIM\r\n\r\n', '1\r\nab\r\n0\r\n\r\nVICTIM', '1\r\na0\r\n\r\nVICTIM'],
  ];
  const VARIANTS = [
    ...HEADERS.map((headers) => ({ headers, body: '0\r\n\r\nVICTIM' })),
    ...LENGTHS.map((headers) => ({ headers, body: 'VICTIM' })),
    ...CHUNKS.map((body) => ({ headers: [CHUNKED], body })),
  ];

  /** Sends a request with another one in its body, and checks that the other one is not executed. */
  async function expectNotExecuted(method: string, headers: readonly string[], body: string): Promise<void> {
    const [victim, bystander] = [await insertOrder(context.service.db), await insertOrder(context.service.db)];
    const hidden = requestText('DELETE', `/v1/store/orders/${victim}`, { key: context.key });
    const content = body.replace('VICTIM', hidden);
    const framing = headers.map((line) => line.replace('LENGTH', String(content.length)));
    const bytes = requestText(method, '/v1/store/orders/0', { key: context.key, headers: framing, body: content });
    const { text, closed } = await fuzzConnection(
      context.service.port,
      Buffer.from(bytes, 'latin1'),
      'GET /nowhere HTTP/1.1\r\nHost: a',
    );
    expect([await statusOf(context.service.db, victim), await statusOf(context.service.db, bystander)]).toEqual([
      'pending',
      'pending',
    ]);
    // The request is rejected or executed; nothing after it on the connection is. Without a response when it is pending.
    expect(closed).toBe(true);
    const responses = parseResponses(Buffer.from(text, 'latin1'), closed, []);
    expect(responses.length).toBeLessThanOrEqual(2);
    for (const response of responses) {
      expectErrorResponse(response, response.status, (JSON.parse(response.body) as { code: string }).code);
    }
  }

  describe('a request in the body of another one', () => {
    it.each(VARIANTS)('is not executed: $headers $body', async ({ headers, body }) => {
      await Promise.all(['POST', 'DELETE', 'GET'].map((method) => expectNotExecuted(method, headers, body)));
    });
  });

  describe('a body that no operation reads', () => {
    it.each([
      ['with Content-Length', ['Content-Length: 5'], 'hello'],
      ['in chunks', ['Transfer-Encoding: chunked'], '5;a="b"\r\nhello\r\n0\r\nX-Trailer: c\r\n\r\n'],
    ])('%s is skipped up to the next request', async (_what, headers, body) => {
      const [one, other] = [await insertOrder(context.service.db), await insertOrder(context.service.db)];
      const text =
        requestText('DELETE', `/v1/store/orders/${one}`, { key: context.key, headers, body }) +
        requestText('DELETE', `/v1/store/orders/${other}`, { key: context.key });
      const { responses } = await exchange(context.service.port, text, { until: 2 });
      expect(responses.map(({ status }) => status)).toEqual([204, 204]);
      expect([await statusOf(context.service.db, one), await statusOf(context.service.db, other)]).toEqual([
        'cancelled',
        'cancelled',
      ]);
    });

    it('in chunks in HTTP/1.0 ends the connection with its response (RFC 9112 section 6.1)', async () => {
      const [order, victim] = [await insertOrder(context.service.db), await insertOrder(context.service.db)];
      const text =
        `DELETE /v1/store/orders/${order} HTTP/1.0\r\nConnection: keep-alive\r\nAuthorization: Bearer ${context.key}\r\n` +
        `Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n${requestText('DELETE', `/v1/store/orders/${victim}`, { key: context.key })}`;
      const { responses } = await exchange(context.service.port, text, { until: 'closed' });
      expect(responses).toHaveLength(1);
      expect(await statusOf(context.service.db, victim)).toBe('pending');
    });
  });
});
