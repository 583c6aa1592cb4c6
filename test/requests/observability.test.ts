import { call, cancelOrder, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { lockOrder, untilLockWaits } from '../helpers/lock-waits.js';
import { RawClient } from '../helpers/raw-client.js';
import { useServiceProcess } from '../helpers/service-process.js';
import { waitFor } from '../helpers/wait-for.js';
import { exchange, requestText } from '../helpers/wire.js';

interface RequestLine {
  requestId: string;
  method: string;
  route: string;
  path?: string;
  status?: number;
  durationMs: number;
  aborted?: boolean;
  keyId?: string;
  plan?: string;
}

const context = useServiceProcess();

const linesOf = (requestId: string): string[] =>
  context.service.output.split('\n').filter((text) => text.includes(`"${requestId}"`));

async function lineOf(requestId: string): Promise<RequestLine> {
  await waitFor(() => linesOf(requestId).length > 0, `the request ${requestId} is logged`);
  return JSON.parse(linesOf(requestId)[0] ?? '') as RequestLine;
}

/** The measured requests whose labels contain all of these. */
async function measured(...labels: string[]): Promise<number> {
  const { text } = await context.metrics();
  const lines = text.split('\n').filter((line) => line.startsWith('http_server_request_duration_seconds_count'));
  return lines
    .filter((line) => labels.every((label) => line.includes(label)))
    .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}

describe('a request is logged once', () => {
  it('with method, route template, status, duration, request id, key id and plan', async () => {
    const id = await insertOrder(context.database.db);
    const { id: keyId, key } = await insertKey(context.database.db);
    const headers = { 'X-Request-Id': 'cancel-1' };
    const response = await call(context.service.baseUrl, 'DELETE', `/store/orders/${id}`, key, headers);
    expect(response.headers.get('x-request-id')).toBe('cancel-1');
    const line = await lineOf('cancel-1');
    expect(line).toMatchObject({
      level: 30,
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]{12}Z$/) as unknown,
      method: 'DELETE',
      route: '/v1/store/orders/{orderId}',
      status: 204,
      keyId,
      plan: 'enterprise',
    });
    expect(line.durationMs).toBeGreaterThan(0);
    expect(linesOf('cancel-1')).toHaveLength(1);
  });

  it('with its path, without the query, outside the known routes only', async () => {
    const paths = ['/orders?query=1', '/store/orders/1/cancel', '/store/orders/1'];
    for (const [index, path] of paths.entries()) {
      await call(context.service.baseUrl, 'GET', path, context.key, { 'X-Request-Id': `path-${index}` });
    }
    expect(await lineOf('path-0')).toMatchObject({ route: 'unmatched', path: '/v1/orders', status: 404 });
    expect(await lineOf('path-1')).toMatchObject({ route: 'unmatched', path: '/v1/store/orders/1/cancel' });
    expect((await lineOf('path-2')).path).toBeUndefined();
  });

  it('without a key id when it is rejected', async () => {
    await call(context.service.baseUrl, 'GET', '/store/orders', undefined, { 'X-Request-Id': 'rejected-1' });
    const rejected = await lineOf('rejected-1');
    expect(rejected).toMatchObject({ route: '/v1/store/orders', status: 401 });
    expect(rejected.keyId).toBeUndefined();
  });

  it('without its key, valid or invalid, wherever the client puts it', async () => {
    const { key } = context;
    const { baseUrl } = context.service;
    const bad = `${key.slice(0, -1)}!`;
    await listOrders(baseUrl, bad);
    await call(baseUrl, 'GET', `/store/orders?key=${key}`, key);
    await call(baseUrl, 'DELETE', `/store/orders/${key}`, key);
    await call(baseUrl, 'GET', '/nothing', key, { 'X-Request-Id': key });
    for (const hidden of [key.toUpperCase(), key.replace('p', '%252570')]) {
      await call(baseUrl, 'GET', `/x/${hidden}`, key);
    }
    await call(baseUrl, 'GET', `/${key}`, key, { 'X-Request-Id': 'last-1', Cookie: key, Referer: key });
    await lineOf('last-1');
    const output = context.service.output.toLowerCase();
    // The part that is stored in plain text is no secret.
    expect(output).not.toContain(key.slice(10).toLowerCase());
    expect(output).not.toContain(bad.slice(10).toLowerCase());
  });

  it('also input that the parser rejects, with the request id of its response', async () => {
    const before = await measured('"_OTHER"', '"400"');
    const { responses } = await exchange(context.service.port, 'hello\r\n\r\n', { until: 'closed' });
    const line = await lineOf(responses[0]?.headers.get('x-request-id')?.[0] ?? 'no request id');
    expect(line).toMatchObject({ method: '_OTHER', route: 'unmatched', path: '', status: 400 });
    expect(await measured('"_OTHER"', '"400"')).toBe(before + 1);
  });
});

it('a request whose client disconnects is logged and measured as aborted, also each that was pipelined behind it', async () => {
  const id = await insertOrder(context.database.db);
  const release = await lockOrder(context.database.db, id);
  const ids = Array.from({ length: 5 }, (_, index) => `aborted-${index}`);
  const cancels = ids.map((requestId) =>
    requestText('DELETE', `/v1/store/orders/${id}`, { key: context.key, headers: [`X-Request-Id: ${requestId}`] }),
  );
  const { socket } = await RawClient.open(context.service.port, cancels.join(''));
  await untilLockWaits(context.database.db);
  socket.destroy();
  const lines = await Promise.all(ids.map(lineOf));
  await release();
  expect(lines).toEqual(ids.map(() => expect.objectContaining({ method: 'DELETE', aborted: true }) as unknown));
  expect(lines.filter(({ status }) => status !== undefined)).toEqual([]);
  expect(await measured('"DELETE"', '/{orderId}"', '"aborted"')).toBe(5);
});

describe('the metrics', () => {
  it('count requests by method, route template and status, never by path', async () => {
    await cancelOrder(context.service.baseUrl, '424242', context.key);
    await call(context.service.baseUrl, 'GET', '/some-made-up-path', context.key);
    await waitFor(async () => (await measured('"GET"', '"unmatched"', '"404"')) > 0, 'the requests are counted');
    expect(await measured('"DELETE"', '"/v1/store/orders/{orderId}"', '"404"')).toBeGreaterThan(0);
    const { text } = await context.metrics();
    expect(text).not.toContain('424242');
    expect(text).not.toContain('made-up');
  });

  it.each([
    ['/metrics?x=1', 200],
    ['/', 404],
  ])('have a port of their own, which serves nothing else: %s gets %i', async (path, status) => {
    const response = await fetch(`http://127.0.0.1:${context.metricsPort}${path}`);
    expect([response.status, (await response.text()).includes('petstore_ready')]).toEqual([status, status === 200]);
  });
});
