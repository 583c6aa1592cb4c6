import { insertKey, insertOrder, statusOf } from '../helpers/builders.js';
import { expectErrorResponse } from '../helpers/expect-error-response.js';
import { fuzzConnection } from '../helpers/fuzz-connection.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { exchange, parseResponses, requestText } from '../helpers/wire.js';

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

/**
 * Requests that two servers in a row may end at different places, so that the one behind takes the rest of a body for a
 * request that the one in front never saw. VICTIM stands for a cancel, LENGTH for the length of the body with it.
 */
const VARIANTS: readonly [what: string, headers: string, body: string][] = [
  [
    'a length that covers it and chunks that do not',
    'Content-Length: LENGTH\r\nTransfer-Encoding: chunked',
    '0\r\n\r\nVICTIM',
  ],
  [
    'chunks that do not cover it and a length that does',
    'Transfer-Encoding: chunked\r\nContent-Length: LENGTH',
    '0\r\n\r\nVICTIM',
  ],
  [
    'chunks said twice, the second time in another word',
    'Transfer-Encoding: chunked\r\nTransfer-Encoding: identity',
    '0\r\n\r\nVICTIM',
  ],
  [
    'chunks said twice, the first time in another word',
    'Transfer-Encoding: identity\r\nTransfer-Encoding: chunked',
    '0\r\n\r\nVICTIM',
  ],
  ['chunks said twice', 'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked', '0\r\n\r\nVICTIM'],
  ['chunks in quotes', 'Content-Length: LENGTH\r\nTransfer-Encoding: "chunked"', '0\r\n\r\nVICTIM'],
  ['chunks with a parameter', 'Content-Length: LENGTH\r\nTransfer-Encoding: chunked;q=1', '0\r\n\r\nVICTIM'],
  ['chunks after a vertical tab', 'Content-Length: LENGTH\r\nTransfer-Encoding: \x0bchunked', '0\r\n\r\nVICTIM'],
  ['chunks after a NUL', 'Content-Length: LENGTH\r\nTransfer-Encoding: \0chunked', '0\r\n\r\nVICTIM'],
  ['a blank before the colon', 'Content-Length: LENGTH\r\nTransfer-Encoding : chunked', '0\r\n\r\nVICTIM'],
  ['a folded header', 'Content-Length: LENGTH\r\nTransfer-Encoding:\r\n chunked', '0\r\n\r\nVICTIM'],
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
  ['two lengths', 'Content-Length: 0\r\nContent-Length: LENGTH', 'VICTIM'],
  ['a list of lengths', 'Content-Length: 0, LENGTH', 'VICTIM'],
  ['a length with a sign', 'Content-Length: +0', 'VICTIM'],
  ['a length in octal', 'Content-Length: 0o0', 'VICTIM'],
  ['a length with a blank in it', 'Content-Length: 0 0', 'VICTIM'],
  ['a length after a blank before the colon', 'Content-Length : 0', 'VICTIM'],
  ['a length beyond all numbers', 'Content-Length: 18446744073709551616', 'VICTIM'],
  ['a size in other hexadecimal', 'Transfer-Encoding: chunked', '0x0\r\n\r\nVICTIM'],
  ['a size with a sign', 'Transfer-Encoding: chunked', '-0\r\n\r\nVICTIM'],
  ['a size with a blank before it', 'Transfer-Encoding: chunked', ' 0\r\n\r\nVICTIM'],
  ['a size beyond all numbers', 'Transfer-Encoding: chunked', '10000000000000000\r\n\r\nVICTIM'],
  ['chunks that end in bare line feeds', 'Transfer-Encoding: chunked', '0\n\nVICTIM'],
  ['a size that ends in a bare line feed', 'Transfer-Encoding: chunked', '1;a\nb\r\n0\r\n\r\nVICTIM'],
  ['an extension that holds a carriage return', 'Transfer-Encoding: chunked', '0;\rVICTIM\r\n\r\n'],
  ['data that is longer than its size', 'Transfer-Encoding: chunked', '1\r\nab\r\n0\r\n\r\nVICTIM'],
  ['data whose end is missing', 'Transfer-Encoding: chunked', '1\r\na0\r\n\r\nVICTIM'],
];

/** Sends a request with one hidden in its body, and checks that nothing came of the hidden one. */
async function expectUnheard(method: string, headers: string, body: string): Promise<void> {
  const [victim, bystander] = [await insertOrder(service.db), await insertOrder(service.db)];
  const hidden = requestText('DELETE', `/v1/store/orders/${victim}`, { key });
  const content = body.replace('VICTIM', hidden);
  const framing = headers.replace('LENGTH', String(content.length)).split('\r\n');
  const bytes = requestText(method, '/v1/store/orders/0', { key, headers: framing, body: content });
  const { text, closed } = await fuzzConnection(
    service.port,
    Buffer.from(bytes, 'latin1'),
    'GET /nowhere HTTP/1.1\r\nHost: a',
  );
  expect([await statusOf(service.db, victim), await statusOf(service.db, bystander)]).toEqual(['pending', 'pending']);
  // Refused as malformed, or carried out as far as it was sound; then nothing more on this connection.
  expect(closed).toBe(true);
  const answers = parseResponses(Buffer.from(text, 'latin1'), closed, []);
  expect(answers.length).toBeLessThanOrEqual(2);
  for (const response of answers) {
    expectErrorResponse(response, response.status, (JSON.parse(response.body) as { code: string }).code);
  }
}

describe('a request hidden in the body of another one behind', () => {
  it.each(VARIANTS)('%s is not carried out', async (_what, headers, body) => {
    await Promise.all(['POST', 'DELETE', 'GET'].map((method) => expectUnheard(method, headers, body)));
  });
});

describe('a body that no operation reads', () => {
  it.each([
    ['with a length', ['Content-Length: 5'], 'hello'],
    ['in chunks', ['Transfer-Encoding: chunked'], '5;a="b"\r\nhello\r\n0\r\nX-Trailer: c\r\n\r\n'],
    ['in chunks, in capitals', ['TRANSFER-ENCODING: CHUNKED'], '0\r\n\r\n'],
  ])('%s is passed over, up to the next request', async (_what, headers, body) => {
    const [one, other] = [await insertOrder(service.db), await insertOrder(service.db)];
    const text =
      requestText('DELETE', `/v1/store/orders/${one}`, { key, headers, body }) +
      requestText('DELETE', `/v1/store/orders/${other}`, { key });
    const { responses } = await exchange(service.port, text, { until: 2 });
    expect(responses.map(({ status }) => status)).toEqual([204, 204]);
    expect([await statusOf(service.db, one), await statusOf(service.db, other)]).toEqual(['cancelled', 'cancelled']);
  });

  it('cannot be in chunks in HTTP/1.0 (RFC 9112 section 6.1): the connection ends with its answer', async () => {
    const [order, victim] = [await insertOrder(service.db), await insertOrder(service.db)];
    const text =
      `DELETE /v1/store/orders/${order} HTTP/1.0\r\nConnection: keep-alive\r\nAuthorization: Bearer ${key}\r\n` +
      `Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n${requestText('DELETE', `/v1/store/orders/${victim}`, { key })}`;
    const { responses } = await exchange(service.port, text, { until: 'closed' });
    expect(responses).toHaveLength(1);
    expect(await statusOf(service.db, victim)).toBe('pending');
  });
});

describe('a request behind one that is refused for its framing', () => {
  it('is not carried out, however soon it comes', async () => {
    const victim = await insertOrder(service.db);
    const text = `GET /nowhere HTTP/1.1\r\n\r\n${requestText('DELETE', `/v1/store/orders/${victim}`, { key })}`;
    const { responses } = await exchange(service.port, text, { until: 'closed' });
    expect(responses).toHaveLength(1);
    expectErrorResponse(responses[0], 400, 'bad_request');
    expect(await statusOf(service.db, victim)).toBe('pending');
  });
});
