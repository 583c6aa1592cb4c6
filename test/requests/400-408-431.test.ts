import { once } from 'node:events';
import { insertMany, insertOrder, statusOf } from '../helpers/builders.js';
import { expectErrorResponse, expectLimits } from '../helpers/expect-error-response.js';
import { lockOrder, untilLockWaits } from '../helpers/lock-waits.js';
import { RawClient } from '../helpers/raw-client.js';
import { useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { exchange, requestText } from '../helpers/wire.js';

const context = useTestService({ environment: { RATE_LIMIT_BAN_THRESHOLD: '0', CANCEL_LOCK_TIMEOUT_MS: '30000' } });

/** With a placeholder for the key, which does not exist yet when the tables are built. */
const KEY = 'Authorization: Bearer KEY\r\n';
const GET = 'GET /v1/nowhere HTTP/1.1\r\n';
const POST = 'POST /v1/store/orders HTTP/1.1\r\n';
const HOST = 'Host: localhost\r\n';
const withKey = (text: string): string => text.replace('KEY', context.key);
const cancel = (id: string): string => requestText('DELETE', `/v1/store/orders/${id}`, { key: context.key });

/** Expects one error, after which the connection is closed. Input that never becomes a request has no limits. */
async function expectOneError(text: string, status: number, code: string): Promise<void> {
  const { responses, closed } = await exchange(context.service.port, withKey(text), { until: 'closed' });
  expect(responses).toHaveLength(1);
  expectErrorResponse(responses[0], status, code);
  expectLimits(responses[0], 'no limits');
  expect(responses[0]?.headers.get('connection')).toEqual(['close']);
  expect(closed).toBe(true);
}

describe('malformed input returns 400 bad_request and closes the connection', () => {
  it.each([
    ['text that is not HTTP', 'hello\r\n\r\n'],
    ['a TLS handshake', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
    ['an unsupported HTTP version', `GET /v1/nowhere HTTP/1.2\r\n${HOST}${KEY}\r\n`],
    ['a NUL in a header', `${GET}${HOST}X-A: b\0c\r\n${KEY}\r\n`],
    ['two Content-Length headers', `${POST}${HOST}${KEY}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd`],
  ])('%s', async (_what, text) => {
    await expectOneError(text, 400, 'bad_request');
  });
});

describe('a head of more than 16 KiB returns 431 and closes the connection', () => {
  it.each([
    ['one large header', `${GET}${HOST}${KEY}X-A: ${'a'.repeat(20_000)}\r\n\r\n`],
    ['a very long target', `GET /v1/${'a'.repeat(20_000)} HTTP/1.1\r\n${HOST}${KEY}\r\n`],
  ])('%s', async (_what, text) => {
    await expectOneError(text, 431, 'request_header_fields_too_large');
  });
});

describe('malformed input never gets a response that a client takes for that of another request', () => {
  // A client that reads 400 before 204 believes that its order was not cancelled.
  it('behind a cancel that is pending, it closes the connection', async () => {
    const id = await insertOrder(context.service.db);
    const release = await lockOrder(context.service.db, id);
    const client = await RawClient.open(context.service.port, cancel(id));
    await untilLockWaits(context.service.db);
    client.socket.write('hello\r\n\r\n');
    await client.untilClosed();
    await release();
    expect(client.received).toBe('');
    await waitFor(async () => (await statusOf(context.service.db, id)) === 'cancelled', 'the cancel is executed');
  });

  it('in a body whose request has its response, it gets none and consumes no quota', async () => {
    const remaining = async (): Promise<number> =>
      Number((await fetch(`${context.service.baseUrl}/v1/nowhere`)).headers.get('x-ratelimit-remaining'));
    const before = await remaining();
    const text = requestText('POST', '/v1/store/orders', { headers: ['Transfer-Encoding: chunked'] });
    const malformed = { until: 'closed', thenSend: 'not a chunk\r\n\r\n' } as const;
    const { responses } = await exchange(context.service.port, text, malformed);
    expect(responses.map(({ status }) => status)).toEqual([401]);
    expect(await remaining()).toBe(before - 2);
  });

  it('behind a list that is being sent, it cuts the list, which never looks complete', async () => {
    // About 20 MB as JSON: more than the buffers of both ends of the connection hold.
    await insertMany(context.service.db, 220_000);
    const list = requestText('GET', '/v1/store/orders', { key: context.key });
    const client = await RawClient.open(context.service.port, list);
    await client.stall();
    const rejected = once(context.service.app.getHttpServer(), 'clientError');
    client.socket.write('hello\r\n\r\n');
    await rejected;
    await client.readToEnd();
    expect(client.received).toMatch(/^HTTP\/1\.1 200 OK/);
    expect(client.responses).toEqual([]);
  });
});

// Runs while the others do: it waits for the timeout of a head, ten seconds, and the interval of its check.
it.concurrent('a slow head returns 408 request_timeout', async () => {
  const slow = await RawClient.open(context.service.port, `${GET}${HOST}X-Slow: `);
  const drip = setInterval(() => slow.socket.write('a'), 500);
  try {
    await waitFor(() => slow.closed, 'the connection is closed', { withinMs: 60_000 });
  } finally {
    clearInterval(drip);
  }
  expect(slow.responses).toHaveLength(1);
  expectErrorResponse(slow.responses[0], 408, 'request_timeout');
});
