import { once } from 'node:events';
import { insertMany, insertOrder, statusOf } from '../helpers/builders.js';
import { expectErrorResponse, expectLimits } from '../helpers/expect-error-response.js';
import { lockOrder, untilLockWaits } from '../helpers/lock-waits.js';
import { RawClient } from '../helpers/raw-client.js';
import { useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { exchange, requestText, responseTo } from '../helpers/wire.js';

const context = useTestService({ environment: { RATE_LIMIT_BAN_THRESHOLD: '0', CANCEL_LOCK_TIMEOUT_MS: '30000' } });

/** With a placeholder for the key, which does not exist yet when the tables are built. */
const KEY = 'Authorization: Bearer KEY\r\n';
const GET = 'GET /v1/nowhere HTTP/1.1\r\n';
const POST = 'POST /v1/store/orders HTTP/1.1\r\n';
const HOST = 'Host: localhost\r\n';
const withKey = (text: string): string => text.replace('KEY', context.key);
const cancel = (id: string): string => requestText('DELETE', `/v1/store/orders/${id}`, { key: context.key });

/** Expects one error, after which the connection is closed. Input that never becomes a request has no limits. */
async function expectOneError(text: string, status: number, code: string, thenSend?: string): Promise<void> {
  const { responses, closed } = await exchange(context.service.port, withKey(text), { until: 'closed', thenSend });
  expect(responses).toHaveLength(1);
  expectErrorResponse(responses[0], status, code);
  expectLimits(responses[0], 'no limits');
  expect(responses[0]?.headers.get('connection')).toEqual(['close']);
  expect(closed).toBe(true);
}

async function remaining(): Promise<number> {
  const { headers } = await fetch(`${context.service.baseUrl}/v1/nowhere`);
  return Number(headers.get('x-ratelimit-remaining'));
}

describe('malformed input returns 400 bad_request and closes the connection', () => {
  it.each([
    ['text that is not HTTP', 'hello\r\n\r\n'],
    ['a TLS handshake', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
    ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['an unknown method', `BREW /v1/store/orders HTTP/1.1\r\n${HOST}${KEY}\r\n`],
    ['a space in the target', `GET /v1/no where HTTP/1.1\r\n${HOST}${KEY}\r\n`],
    ['a byte above ASCII in the target', `GET /v1/caf\xe9 HTTP/1.1\r\n${HOST}${KEY}\r\n`],
    ['a target without a leading slash', `GET v1/nowhere HTTP/1.1\r\n${HOST}${KEY}\r\n`],
    ['an unsupported HTTP version', `GET /v1/nowhere HTTP/1.2\r\n${HOST}${KEY}\r\n`],
    ['a NUL in a header', `${GET}${HOST}X-A: b\0c\r\n${KEY}\r\n`],
    ['a line feed in a header', `${GET}${HOST}X-A: b\nX-Injected: c\r\n${KEY}\r\n`],
    ['two Content-Length headers', `${POST}${HOST}${KEY}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd`],
  ])('%s', async (_what, text) => {
    await expectOneError(text, 400, 'bad_request');
  });

  it('in full although more input follows', async () => {
    await expectOneError('hello\r\n\r\n', 400, 'bad_request', 'hello\r\n\r\n');
  });

  it('and counts against nobody', async () => {
    const before = await remaining();
    await expectOneError('hello\r\n\r\n', 400, 'bad_request');
    expect(await remaining()).toBe(before - 1);
  });
});

describe('a head of more than 16 KiB returns 431 and closes the connection', () => {
  it.each([
    ['one large header', `${GET}${HOST}${KEY}X-A: ${'a'.repeat(20_000)}\r\n\r\n`],
    ['many headers', `${GET}${HOST}${KEY}${`X-A: ${'b'.repeat(100)}\r\n`.repeat(200)}\r\n`],
    ['a very long target', `GET /v1/${'a'.repeat(20_000)} HTTP/1.1\r\n${HOST}${KEY}\r\n`],
    ['a header without an end', `${GET}${HOST}${KEY}X-A: ${'a'.repeat(20_000)}`],
  ])('%s', async (_what, text) => {
    await expectOneError(text, 431, 'request_header_fields_too_large');
  });

  it('a target of nearly that size gets the same errors as a short one', async () => {
    const { port } = context.service;
    const long = await responseTo(port, 'DELETE', `/v1/store/orders/${'1'.repeat(15_000)}`, { key: context.key });
    expectErrorResponse(long, 400, 'invalid_order_id');
    const query = await responseTo(port, 'GET', `/v1/nowhere?${'a=b&'.repeat(3_500)}`, { key: context.key });
    expectErrorResponse(query, 404, 'route_not_found');
  });
});

it('CONNECT closes the connection without a response', async () => {
  const text = 'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n';
  expect(await exchange(context.service.port, text, { until: 'closed' })).toMatchObject({ responses: [] });
});

it.each(['%', '%zz', '%ff', '%c3%28', '%00', '1%0d%0aX-Injected:%20yes', '%F0%9F%90%B6'])(
  'an order id with percent-encoding returns 400 invalid_order_id with a key and 401 without one: %s',
  async (id) => {
    const target = `/v1/store/orders/${id}`;
    const response = await responseTo(context.service.port, 'DELETE', target, { key: context.key });
    expectErrorResponse(response, 400, 'invalid_order_id');
    expectLimits(response, 'limits');
    expect([...response.headers.keys()]).not.toContain('x-injected');
    expectErrorResponse(await responseTo(context.service.port, 'DELETE', target), 401, 'missing_api_key');
  },
);

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
    expect(client.received.length).toBe(0);
    await waitFor(async () => (await statusOf(context.service.db, id)) === 'cancelled', 'the cancel is executed');
  });

  it('in the body of a cancel, which is executed, it gets 204 or none', async () => {
    const id = await insertOrder(context.service.db);
    const text = requestText('DELETE', `/v1/store/orders/${id}`, {
      key: context.key,
      headers: ['Transfer-Encoding: chunked'],
      body: 'no chunk\r\n\r\n',
    });
    const { responses, closed } = await exchange(context.service.port, text, { until: 'closed' });
    expect([[], [204]]).toContainEqual(responses.map(({ status }) => status));
    expect(closed).toBe(true);
    await waitFor(async () => (await statusOf(context.service.db, id)) === 'cancelled', 'the cancel is executed');
  });

  it('in a body whose request has its response, it gets none and consumes no quota', async () => {
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
    client.socket.resume();
    await client.untilClosed();
    expect(client.received.toString('latin1')).toMatch(/^HTTP\/1\.1 200 OK/);
    expect(client.responses).toEqual([]);
  });
});

// Runs while the others do: it waits for the timeout of a head, ten seconds, and the interval of its check.
it.concurrent('a slow head returns 408 request_timeout, and a client that has sent nothing gets none', async () => {
  const silent = await RawClient.open(context.service.port);
  const slow = await RawClient.open(context.service.port, `${GET}${HOST}X-Slow: `);
  const drip = setInterval(() => slow.socket.write('a'), 500);
  try {
    await waitFor(() => silent.closed && slow.closed, 'both are closed', { withinMs: 60_000 });
  } finally {
    clearInterval(drip);
  }
  expect(silent.received.length).toBe(0);
  expect(slow.responses).toHaveLength(1);
  expectErrorResponse(slow.responses[0], 408, 'request_timeout');
});
