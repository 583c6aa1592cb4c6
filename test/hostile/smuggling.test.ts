import { insertOrder, statusOf } from '../helpers/builders.js';
import { expectErrorResponse } from '../helpers/expect-error-response.js';
import { fuzzConnection } from '../helpers/fuzz-connection.js';
import { useTestService } from '../helpers/test-service.js';
import { exchange, parseResponses, requestText } from '../helpers/wire.js';

const context = useTestService();

/**
 * Requests whose end a proxy and the service might find at different places, so that the service reads the rest of a body
 * as a request that the proxy has not seen. VICTIM is replaced by a cancel, LENGTH by the length of the body.
 */
const VARIANTS: readonly [what: string, headers: string, body: string][] = [
  [
    'Content-Length that includes it, before chunks that do not',
    'Content-Length: LENGTH\r\nTransfer-Encoding: chunked',
    '0\r\n\r\nVICTIM',
  ],
  [
    'chunks that do not include it, before Content-Length that does',
    'Transfer-Encoding: chunked\r\nContent-Length: LENGTH',
    '0\r\n\r\nVICTIM',
  ],
  [
    'Transfer-Encoding chunked, then identity',
    'Transfer-Encoding: chunked\r\nTransfer-Encoding: identity',
    '0\r\n\r\nVICTIM',
  ],
  [
    'Transfer-Encoding identity, then chunked',
    'Transfer-Encoding: identity\r\nTransfer-Encoding: chunked',
    '0\r\n\r\nVICTIM',
  ],
  ['Transfer-Encoding chunked twice', 'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked', '0\r\n\r\nVICTIM'],
  ['Transfer-Encoding chunked in quotes', 'Content-Length: LENGTH\r\nTransfer-Encoding: "chunked"', '0\r\n\r\nVICTIM'],
  [
    'Transfer-Encoding chunked with a parameter',
    'Content-Length: LENGTH\r\nTransfer-Encoding: chunked;q=1',
    '0\r\n\r\nVICTIM',
  ],
  [
    'Transfer-Encoding chunked after a vertical tab',
    'Content-Length: LENGTH\r\nTransfer-Encoding: \x0bchunked',
    '0\r\n\r\nVICTIM',
  ],
  [
    'Transfer-Encoding chunked after a NUL',
    'Content-Length: LENGTH\r\nTransfer-Encoding: \0chunked',
    '0\r\n\r\nVICTIM',
  ],
  [
    'a space before the colon of Transfer-Encoding',
    'Content-Length: LENGTH\r\nTransfer-Encoding : chunked',
    '0\r\n\r\nVICTIM',
  ],
  ['a folded Transfer-Encoding header', 'Content-Length: LENGTH\r\nTransfer-Encoding:\r\n chunked', '0\r\n\r\nVICTIM'],
  [
    'a header after a bare line feed',
    'Content-Length: LENGTH\r\nX-A: b\nTransfer-Encoding: chunked',
    '0\r\n\r\nVICTIM',
  ],
  [
    'a header after a bare carriage return',
    'Content-Length: LENGTH\r\nX-A: b\rTransfer-Encoding: chunked',
    '0\r\n\r\nVICTIM',
  ],
  ['two Content-Length headers', 'Content-Length: 0\r\nContent-Length: LENGTH', 'VICTIM'],
  ['a list in Content-Length', 'Content-Length: 0, LENGTH', 'VICTIM'],
  ['a Content-Length with a sign', 'Content-Length: +0', 'VICTIM'],
  ['an octal Content-Length', 'Content-Length: 0o0', 'VICTIM'],
  ['a Content-Length that contains a space', 'Content-Length: 0 0', 'VICTIM'],
  ['a space before the colon of Content-Length', 'Content-Length : 0', 'VICTIM'],
  ['a Content-Length of 2^64', 'Content-Length: 18446744073709551616', 'VICTIM'],
  ['a chunk size with 0x', 'Transfer-Encoding: chunked', '0x0\r\n\r\nVICTIM'],
  ['a chunk size with a sign', 'Transfer-Encoding: chunked', '-0\r\n\r\nVICTIM'],
  ['a chunk size after a space', 'Transfer-Encoding: chunked', ' 0\r\n\r\nVICTIM'],
  ['a chunk size of 2^64', 'Transfer-Encoding: chunked', '10000000000000000\r\n\r\nVICTIM'],
  ['chunks that end in bare line feeds', 'Transfer-Encoding: chunked', '0\n\nVICTIM'],
  ['a chunk size that ends in a bare line feed', 'Transfer-Encoding: chunked', '1;a\nb\r\n0\r\n\r\nVICTIM'],
  ['a chunk extension that contains a carriage return', 'Transfer-Encoding: chunked', '0;\rVICTIM\r\n\r\n'],
  ['chunk data that is longer than its size', 'Transfer-Encoding: chunked', '1\r\nab\r\n0\r\n\r\nVICTIM'],
  ['chunk data without its line end', 'Transfer-Encoding: chunked', '1\r\na0\r\n\r\nVICTIM'],
];

/** Sends a request with another one in its body, and checks that the other one is not executed. */
async function expectNotExecuted(method: string, headers: string, body: string): Promise<void> {
  const [victim, bystander] = [await insertOrder(context.service.db), await insertOrder(context.service.db)];
  const hidden = requestText('DELETE', `/v1/store/orders/${victim}`, { key: context.key });
  const content = body.replace('VICTIM', hidden);
  const framing = headers.replace('LENGTH', String(content.length)).split('\r\n');
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
  // The request is rejected or executed; nothing after it on the connection is.
  expect(closed).toBe(true);
  const responses = parseResponses(Buffer.from(text, 'latin1'), closed, []);
  expect(responses.length).toBeLessThanOrEqual(2);
  for (const response of responses) {
    expectErrorResponse(response, response.status, (JSON.parse(response.body) as { code: string }).code);
  }
}

describe('a request in the body of another one', () => {
  it.each(VARIANTS)('is not executed with %s', async (_what, headers, body) => {
    await Promise.all(['POST', 'DELETE', 'GET'].map((method) => expectNotExecuted(method, headers, body)));
  });
});

describe('a body that no operation reads', () => {
  it.each([
    ['with Content-Length', ['Content-Length: 5'], 'hello'],
    ['in chunks', ['Transfer-Encoding: chunked'], '5;a="b"\r\nhello\r\n0\r\nX-Trailer: c\r\n\r\n'],
    ['in chunks, with the header in capitals', ['TRANSFER-ENCODING: CHUNKED'], '0\r\n\r\n'],
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

describe('a request behind one that is rejected for its framing', () => {
  it('is not executed when both arrive together', async () => {
    const victim = await insertOrder(context.service.db);
    const text = `GET /nowhere HTTP/1.1\r\n\r\n${requestText('DELETE', `/v1/store/orders/${victim}`, { key: context.key })}`;
    const { responses } = await exchange(context.service.port, text, { until: 'closed' });
    expect(responses).toHaveLength(1);
    expectErrorResponse(responses[0], 400, 'bad_request');
    expect(await statusOf(context.service.db, victim)).toBe('pending');
  });
});
