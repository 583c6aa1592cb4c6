import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { RateLimiter } from '../../src/rate-limit/rate-limiter.js';
import { lockOrder, untilLockWaits } from '../helpers/lock-waits.js';
import { insertMany, insertOrder, statusOf } from '../helpers/builders.js';
import { expectErrorResponse, expectLimits } from '../helpers/expect-error-response.js';
import { RawClient } from '../helpers/raw-client.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { exchange, requestText } from '../helpers/wire.js';

describe('pipelined requests', () => {
  const context = useTestService({ environment: { CANCEL_LOCK_TIMEOUT_MS: '30000' } });
  beforeAll(async () => {
    // Caches the key.
    await fetch(`${context.service.baseUrl}/v1/nowhere`, { headers: { Authorization: `Bearer ${context.key}` } });
  });

  const cancel = (id: string): string => requestText('DELETE', `/v1/store/orders/${id}`, { key: context.key });

  async function metric(name: string, labels?: string): Promise<number> {
    return (await ServiceMetrics.of(context.service.app)).sum(name, labels);
  }
  const PADDING = `X-Padding: ${'x'.repeat(900)}`;
  /** Has as many requests executed as are on another connection, whose turn to be read comes meanwhile. */
  async function executeMany(count: number): Promise<void> {
    const text = requestText('GET', '/v1/nowhere', { key: context.key, headers: [PADDING] }).repeat(count);
    expect((await exchange(context.service.port, text, { until: count })).responses).toHaveLength(count);
  }

  const listsLost = (): Promise<number> => metric('petstore_lists_total', 'disconnected');
  const listsSent = (): Promise<number> => metric('petstore_lists_running');

  it('get their responses in order, errors and successes', async () => {
    const [one, other] = [await insertOrder(context.service.db), await insertOrder(context.service.db)];
    const text = [
      cancel(one),
      requestText('GET', '/v1/store/orders'),
      requestText('PUT', '/v1/store/orders', { key: context.key }),
      cancel('x'),
      cancel(other),
      requestText('GET', '/nowhere'),
      cancel(one),
    ].join('');
    const { responses } = await exchange(context.service.port, text, { until: 7 });
    expect(responses.map(({ status }) => status)).toEqual([204, 401, 405, 400, 204, 404, 409]);
    for (const response of responses) {
      expect(response.headers.get('connection')).toEqual(['keep-alive']);
    }
  });

  it.each([
    ['Connection: close', ['Connection: close'], 'HTTP/1.1'],
    ['Expect: 100-continue', ['Expect: 100-continue'], 'HTTP/1.1'],
    ['Upgrade', ['Connection: Upgrade', 'Upgrade: websocket'], 'HTTP/1.1'],
    ['HTTP/1.0, also with keep-alive', ['Connection: keep-alive'], 'HTTP/1.0'],
  ])('are not executed after one with %s', async (_what, headers, version) => {
    const id = await insertOrder(context.service.db);
    const list = requestText('GET', '/v1/store/orders', { key: context.key, headers }).replace('HTTP/1.1', version);
    const { responses, closed } = await exchange(context.service.port, list + cancel(id), { until: 'closed' });
    expect(responses.map(({ status }) => status)).toEqual([200]);
    expect(responses[0]?.headers.get('connection')).toEqual(['close']);
    expect(closed).toBe(true);
    expect(await statusOf(context.service.db, id)).toBe('pending');
  });

  it.each<[string, string, number, string, number]>([
    ['a cancel behind a list', 'GET /v1/store/orders', 200, 'DELETE /v1/store/orders/ID', 204],
    ['a cancel behind a rejection', 'GET /v1/store/orders without a key', 401, 'DELETE /v1/store/orders/ID', 204],
    ['a rejection behind a cancel', 'DELETE /v1/store/orders/ID', 204, 'GET /v1/store/orders without a key', 401],
    ['a list behind a cancel', 'DELETE /v1/store/orders/ID', 204, 'GET /v1/store/orders', 200],
    ['an error behind a list', 'GET /v1/store/orders', 200, 'PUT /v1/store/orders', 405],
    ['a document behind a list', 'GET /v1/store/orders', 200, 'GET /docs/openapi.json', 200],
  ])('get no 100 Continue between or inside responses: %s', async (_what, first, firstStatus, second, status) => {
    const id = await insertOrder(context.service.db);
    const text = (request: string, headers: readonly string[]): string => {
      const [method = '', target = '', without] = request.replace('ID', id).split(' ');
      return requestText(method, target, { ...(without === undefined ? { key: context.key } : {}), headers });
    };
    const { responses, text: received } = await exchange(
      context.service.port,
      text(first, []) + text(second, ['Expect: 100-continue', 'Connection: close']),
      { until: 'closed' },
    );
    // Node would write 100 Continue before the pending response, or between the head and the body of a buffered one.
    expect(received.match(/HTTP\/1\.1 [0-9]{3}/g)).toEqual([`HTTP/1.1 ${firstStatus}`, `HTTP/1.1 ${status}`]);
    expect(responses.map((response) => response.status)).toEqual([firstStatus, status]);
    for (const { body } of responses.filter((response) => response.status !== 204)) {
      expect(() => JSON.parse(body) as unknown).not.toThrow();
    }
  });

  // Responses have the order of their requests (RFC 9112 section 9.3.2). A client that reads 400 first believes that its
  // order was not cancelled.
  it('get all earlier responses before the 400 of a malformed request', async () => {
    const [one, other] = [await insertOrder(context.service.db), await insertOrder(context.service.db)];
    const text = `${cancel(one)}${requestText('GET', '/v1/store/orders')}${cancel(other)}hello\r\n\r\n`;
    const { responses } = await exchange(context.service.port, text, { until: 'closed' });
    expect(responses.map(({ status }) => status)).toEqual([204, 401, 204, 400]);
    expectLimits(responses[1], 'limits');
    expectErrorResponse(responses[3], 400, 'bad_request');
    expect(await statusOf(context.service.db, one)).toBe('cancelled');
  });

  it('are all measured when the connection is lost before their responses', async () => {
    const counted = (): Promise<number> => metric('http_server_request_duration_seconds_count', 'orderId');
    const before = await counted();
    const id = await insertOrder(context.service.db);
    const release = await lockOrder(context.service.db, id);
    try {
      const client = connect(context.service.port, '127.0.0.1');
      client.write(cancel(id) + cancel('x') + cancel('x'));
      await untilLockWaits(context.service.db);
      client.destroy();
      await waitFor(async () => (await counted()) >= before + 3, 'all three are counted');
      expect(await counted()).toBe(before + 3);
    } finally {
      await release();
    }
  });

  it('end with their connection when a CONNECT follows, after which Node watches it no longer', async () => {
    const session = await context.service.db.connect();
    await session.query('BEGIN; LOCK TABLE order_list_changes IN ACCESS EXCLUSIVE MODE');
    const list = requestText('GET', '/v1/store/orders', { key: context.key });
    const tunnel = 'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n';
    const { responses } = await exchange(context.service.port, list.repeat(8) + tunnel, { until: 'closed' });
    const lost = listsLost();
    await session.query('ROLLBACK');
    session.release();
    expect(responses).toEqual([]);
    const before = await lost;
    await waitFor(async () => (await listsLost()) === before + 8, 'all lists have ended');
    expect(await listsSent()).toBe(0);
    expect((await exchange(context.service.port, tunnel, { until: 'closed' })).responses).toEqual([]);
  });

  it.each([
    // The cancel needs no body, so it is executed.
    ['a cancel', 'DELETE', 204],
    ['a rejected request', 'POST', 401],
  ])('get one response, which states the outcome, when the body of %s is malformed', async (_what, method, status) => {
    const id = await insertOrder(context.service.db);
    const text = requestText(method, `/v1/store/orders/${id}`, {
      ...(status === 204 ? { key: context.key } : {}),
      headers: ['Transfer-Encoding: chunked'],
      body: 'not a chunk\r\n\r\n',
    });
    const { responses, closed } = await exchange(context.service.port, text, { until: 'closed' });
    expect([responses.map((response) => response.status), closed]).toEqual([[status], true]);
    expect(await statusOf(context.service.db, id)).toBe(status === 204 ? 'cancelled' : 'pending');
  });

  it('get no second response and consume no quota when a body is malformed after its response', async () => {
    const remaining = async (): Promise<number> => {
      const { headers } = await fetch(`${context.service.baseUrl}/v1/nowhere`);
      return Number(headers.get('x-ratelimit-remaining'));
    };
    const before = await remaining();
    const text = requestText('POST', '/v1/store/orders', { headers: ['Transfer-Encoding: chunked'] });
    const { responses } = await exchange(context.service.port, text, {
      until: 'closed',
      thenSend: 'not a chunk\r\n\r\n',
    });
    expect(responses.map(({ status }) => status)).toEqual([401]);
    expect(await remaining()).toBe(before - 2);
  });

  it.each([
    [0, 1_000],
    [100_000, 60_000],
  ])(
    'are not followed by the rest of a body whose response has been sent, after %i bytes',
    async (written, lingerMs) => {
      jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask', 'performance', 'Date'] });
      const accepted: Socket[] = [];
      context.service.app.getHttpServer().once('connection', (socket: Socket) => {
        accepted.push(Object.defineProperty(socket, 'bytesWritten', { value: written }));
      });
      const client = connect(context.service.port, '127.0.0.1').on('error', () => undefined);
      client.write(requestText('DELETE', '/v1/store/orders/1', { headers: ['Transfer-Encoding: chunked'] }));
      const [received] = (await once(client, 'data')) as [Buffer];
      expect(received.toString()).toMatch(/^HTTP\/1\.1 401/);
      const [connection] = accepted;
      client.write('1\r\nx\r\n'.repeat(1_000_000));
      await once(client.resume(), 'end');
      // What one read receives.
      expect(connection!.bytesRead).toBeLessThan(100_000);
      // A reset would lose what the client has not received of responses before.
      const timedOut = Object.assign(new Error(), { code: 'ERR_HTTP_REQUEST_TIMEOUT' });
      context.service.app.getHttpServer().emit('clientError', timedOut, connection);
      jest.advanceTimersByTime(lingerMs - 1);
      expect(connection!.destroyed).toBe(false);
      jest.advanceTimersByTime(1);
      expect(connection!.destroyed).toBe(true);
      jest.useRealTimers();
    },
  );

  it.each([
    [1_000, 900, 64],
    [40, 15_000, 3],
  ])('are not read further while many wait, or large ones: %i with %i bytes', async (behind, bytes, readMax) => {
    const counted = jest.spyOn(context.service.app.get(RateLimiter).keys, 'consume');
    const id = await insertOrder(context.service.db);
    const release = await lockOrder(context.service.db, id);
    const { app } = context.service;
    const accepted = once(app.getHttpServer(), 'connection');
    // One read of the connection has 64 of them.
    const text = Array.from({ length: behind }, (_, number) =>
      requestText('GET', '/v1/nowhere', {
        key: context.key,
        headers: [`X-Request-Id: n${number}`, `X-Padding: ${'x'.repeat(bytes)}`],
      }),
    );
    const exchanged = exchange(context.service.port, cancel(id) + text.join(''), { until: behind + 1 });
    await untilLockWaits(context.service.db);
    await executeMany(behind);
    expect(counted.mock.calls.length).toBeLessThanOrEqual(behind + readMax);
    // The head of a request is incomplete for long because nothing is read.
    const timedOut = Object.assign(new Error(), { code: 'ERR_HTTP_REQUEST_TIMEOUT' });
    app.getHttpServer().emit('clientError', timedOut, (await accepted)[0]);
    await release();
    counted.mockRestore();
    const { responses } = await exchanged;
    expect(responses[0]?.status).toBe(204);
    expect(responses.slice(1).map(({ headers }) => headers.get('x-request-id')?.[0])).toEqual(
      Array.from({ length: behind }, (_, number) => `n${number}`),
    );
  });

  it('are read further only when Node reads, too, which pauses while a response takes much memory', async () => {
    const { app, db, port } = context.service;
    const id = await insertOrder(db);
    await insertMany(context.service.db, 5_000);
    const counted = jest.spyOn(app.get(RateLimiter).addresses, 'consume');
    const release = await lockOrder(context.service.db, id);
    const anonymous = requestText('GET', '/v1/nowhere', { headers: [`X-Padding: ${'x'.repeat(800)}`] });
    // Of the requests that follow, the first is the sixteenth that waits: Node pauses for the list, and the service for their number.
    const list = requestText('GET', '/v1/store/orders', { key: context.key });
    const client = await RawClient.open(port, cancel(id) + anonymous.repeat(13) + list);
    await waitFor(async () => (await listsSent()) === 1, 'the list waits behind the cancel');
    client.socket.write(anonymous.repeat(30));
    await waitFor(() => counted.mock.calls.length > 13, 'requests behind the list have arrived');
    counted.mockRestore();
    await release();
    await waitFor(() => client.responses.length === 45, 'all have their response');
    const rejected = Array<number>(30).fill(401);
    expect(client.responses.map(({ status }) => status)).toEqual([204, ...rejected.slice(0, 13), 200, ...rejected]);
    client.socket.destroy();
    await db.query('DELETE FROM orders WHERE id <> $1', [id]);
  });

  it('are not read further when many are not executed, behind one that ends its connection, which loses no response', async () => {
    const { app, db, port } = context.service;
    const id = await insertOrder(db);
    // About 350 KB as JSON: not all of it fits into the client's buffer, but all into those of both ends.
    await insertMany(context.service.db, 5_000);
    const release = await lockOrder(db, id);
    const server = app.getHttpServer();
    const accepted = once(server, 'connection') as Promise<[Socket]>;
    const arrived = jest.fn();
    server.on('request', arrived);
    const list = requestText('GET', '/v1/store/orders', { key: context.key });
    const headers = ['Expect: 100-continue'];
    const last = requestText('DELETE', `/v1/store/orders/${id}`, { key: context.key, headers });
    const ignored = requestText('GET', '/v1/nowhere', { headers: [PADDING] });
    const client = await RawClient.open(port, list + last + ignored.repeat(1_000));
    client.socket.pause();
    await untilLockWaits(db);
    await executeMany(1_000);
    expect(arrived.mock.calls.length).toBeLessThan(1_000 + 200);
    await release();
    const [connection] = await accepted;
    await waitFor(() => connection.writableFinished, 'the connection is ended');
    client.socket.resume();
    await client.untilClosed();
    expect(client.responses.map(({ status }) => status)).toEqual([200, 204]);
    server.off('request', arrived);
    await db.query('DELETE FROM orders WHERE id > 1000000');
  });

  it('get the response to a malformed request after the list that is being sent', async () => {
    // About 20 MB as JSON: more than the buffers of both ends of the connection hold.
    await insertMany(context.service.db, 300_000);
    const list = requestText('GET', '/v1/store/orders', { key: context.key });
    const client = await RawClient.open(context.service.port, list);
    await client.stall();
    const rejected = once(context.service.app.getHttpServer(), 'clientError');
    client.socket.write('hello\r\n\r\n');
    await rejected;
    expect(await listsSent()).toBe(1);
    client.socket.resume();
    await client.untilClosed();
    await context.service.db.query('DELETE FROM orders WHERE id > 1000000');
    expect(client.responses.map(({ status }) => status)).toEqual([200, 400]);
    expect((JSON.parse(client.responses[0]!.body) as unknown[]).length).toBeGreaterThanOrEqual(300_000);
  });
});
