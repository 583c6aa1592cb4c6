import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Counter, Gauge, Registry } from 'prom-client';
import { serveMetrics } from '../../src/http/metrics-server.js';
import { call, cancelOrder, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { lockOrder, untilLockWaits } from '../helpers/lock-waits.js';
import { RawClient } from '../helpers/raw-client.js';
import type { ServiceMetrics } from '../helpers/service-metrics.js';
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
const metrics = async (): Promise<string> => (await context.metrics()).text;

async function lineOf(requestId: string): Promise<RequestLine> {
  const line = (): string | undefined =>
    context.service.output.split('\n').find((text) => text.includes(`"${requestId}"`));
  await waitFor(() => line() !== undefined, `the request ${requestId} is logged`);
  return JSON.parse(line() ?? '') as RequestLine;
}

describe('the request log', () => {
  it('has one line per request, with method, route template, status, duration, request id, key id and plan', async () => {
    const id = await insertOrder(context.database.db);
    const { id: keyId, key } = await insertKey(context.database.db);
    const response = await call(context.service.baseUrl, 'DELETE', `/store/orders/${id}`, key, {
      'X-Request-Id': 'cancel-1',
    });
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
    expect(context.service.output.split('\n').filter((text) => text.includes('"cancel-1"'))).toHaveLength(1);
  });

  it('has a new request id, and no key id, for a rejection whose request id is malformed', async () => {
    const headers = { 'X-Request-Id': 'with blank' };
    const response = await call(context.service.baseUrl, 'GET', '/store/orders', undefined, headers);
    const requestId = response.headers.get('x-request-id') ?? '';
    expect(requestId).toMatch(/^[0-9a-f-]{36}$/);
    const line = await lineOf(requestId);
    expect(line).toMatchObject({ route: '/v1/store/orders', status: 401 });
    expect(line.keyId).toBeUndefined();
  });

  it('has the path of a request outside the known routes only, without its query', async () => {
    const paths = ['/orders?query=1', '/store/orders/1/cancel', '/store/orders/1'];
    for (const [index, path] of paths.entries()) {
      await call(context.service.baseUrl, 'GET', path, context.key, { 'X-Request-Id': `path-${index}` });
    }
    expect(await lineOf('path-0')).toMatchObject({ route: 'unmatched', path: '/v1/orders', status: 404 });
    expect(await lineOf('path-1')).toMatchObject({ route: 'unmatched', path: '/v1/store/orders/1/cancel' });
    expect((await lineOf('path-2')).path).toBeUndefined();
  });

  it('never contains a key, valid or invalid, wherever a client puts it', async () => {
    const { key } = context;
    const bad = `${key.slice(0, -1)}!`;
    await listOrders(context.service.baseUrl, key);
    await listOrders(context.service.baseUrl, bad);
    await call(context.service.baseUrl, 'GET', `/store/orders?key=${key}`, key);
    await call(context.service.baseUrl, 'DELETE', `/store/orders/${key}`, key);
    await call(context.service.baseUrl, 'GET', '/nothing', key, { 'X-Request-Id': key });
    await call(context.service.baseUrl, 'GET', '/nothing', key, { 'X-Request-Id': key.replace('pst', 'PST') });
    for (const hidden of [
      key.toUpperCase(),
      key.replace('_', '%5F'),
      key.replace('p', '%252570'),
      `${key.slice(0, 10)}%00${key.slice(10)}`,
    ]) {
      await call(context.service.baseUrl, 'GET', `/x/${hidden}`, key);
    }
    await call(context.service.baseUrl, 'GET', `/${key}`, key, { 'X-Request-Id': 'last-1', Cookie: key, Referer: key });
    await lineOf('last-1');
    const output = context.service.output.toLowerCase();
    // The part that is stored in plain text is no secret.
    expect(output).not.toContain(key.slice(10).toLowerCase());
    expect(output).not.toContain(bad.slice(10).toLowerCase());
  });
});

describe('a request whose client disconnects', () => {
  it('before the response is logged and measured as aborted, without a status', async () => {
    const id = await insertOrder(context.database.db);
    const release = await lockOrder(context.database.db, id);
    const ids = Array.from({ length: 5 }, (_, index) => `aborted-${index}`);
    const clients = ids.map((requestId) => {
      const headers = [`X-Request-Id: ${requestId}`];
      const cancel = requestText('DELETE', `/v1/store/orders/${id}`, { key: context.key, headers });
      return RawClient.open(context.service.port, cancel);
    });
    await untilLockWaits(context.database.db);
    // Handled after the cancels have been read.
    await fetch(`${context.service.baseUrl}/health/live`);
    for (const { socket } of await Promise.all(clients)) {
      socket.destroy();
    }
    const lines = await Promise.all(ids.map((requestId) => lineOf(requestId)));
    await release();
    expect(lines).toEqual(ids.map(() => expect.objectContaining({ method: 'DELETE', aborted: true }) as unknown));
    expect(lines.filter(({ status }) => status !== undefined)).toEqual([]);
    expect(await metrics()).toMatch(
      /_count\{http_request_method="DELETE",http_route="\/v1\/store\/orders\/\{orderId\}",error_type="aborted"\} 5/,
    );
  });

  it('before it has received all of the response is logged and measured as aborted, with the status', async () => {
    const ids = Array.from({ length: 8 }, (_, index) => `page-${index}`);
    // More than the buffers of both ends of a connection hold.
    const pages = ids.map((requestId) =>
      requestText('GET', '/docs/swagger-ui-bundle.js', { headers: [`X-Request-Id: ${requestId}`] }),
    );
    const client = await RawClient.open(context.service.port, pages.join(''));
    await client.stall();
    client.socket.destroy();
    expect(await lineOf('page-7')).toMatchObject({ route: '/docs', aborted: true });
    const lines = await Promise.all(ids.map((requestId) => lineOf(requestId)));
    expect(lines.filter(({ status, aborted }) => status === 200 && aborted === true)).not.toEqual([]);
    expect(await metrics()).toMatch(
      /_count\{http_request_method="GET",http_route="\/docs",error_type="aborted"\} [1-9]/,
    );
  });
});

it('input that the parser rejects is logged with the request id of its response and measured', async () => {
  const { responses } = await exchange(context.service.port, 'hello\r\n\r\n', { until: 'closed' });
  expect(responses[0]?.status).toBe(400);
  const line = await lineOf(responses[0]?.headers.get('x-request-id')?.[0] ?? 'no request id');
  expect(line).toMatchObject({ method: '_OTHER', route: 'unmatched', path: '', status: 400 });
  expect(await metrics()).toMatch(/_count\{http_request_method="_OTHER",.*code="400"\} [1-9]/);
});

describe('the metrics', () => {
  it('count the pieces of lists by where they were', async () => {
    const list = async (): Promise<string> => (await listOrders(context.service.baseUrl, context.key)).text();
    await list();
    const before = await context.metrics();
    await insertOrder(context.database.db);
    await list();
    await list();
    const after = await context.metrics();
    const increaseOf = (...series: Parameters<ServiceMetrics['sum']>): number =>
      after.sum(...series) - before.sum(...series);
    expect(increaseOf('petstore_list_pieces_total', 'source="database"')).toBe(1);
    expect(increaseOf('petstore_list_pieces_total', 'source="memory"')).toBe(1);
  });

  it('count requests by method, route template and status, never by path', async () => {
    await cancelOrder(context.service.baseUrl, '424242', context.key);
    await call(context.service.baseUrl, 'GET', '/some-made-up-path', context.key);
    await waitFor(async () => (await metrics()).includes('unmatched'), 'the requests are counted');
    const text = await metrics();
    expect(text).toMatch(
      /http_server_request_duration_seconds_count\{http_request_method="DELETE",http_route="\/v1\/store\/orders\/\{orderId\}",http_response_status_code="404"\} [1-9]/,
    );
    expect(text).not.toContain('424242');
    expect(text).not.toContain('made-up');
  });

  it('show limiter decisions, cancels, lists and pools', async () => {
    await listOrders(context.service.baseUrl, context.key);
    const text = await metrics();
    for (const sample of [
      /petstore_limiter_decisions_total\{plan="enterprise",outcome="admitted"\} [1-9]/,
      /petstore_cancels_total\{outcome="not_found"\} [1-9]/,
      /petstore_lists_total\{end="complete"\} [1-9]/,
      /petstore_lists_running 0/,
      /petstore_pool_connections\{pool="list",state="used"\} 0/,
      /petstore_api_key_lookups_total\{source="memory"\} [1-9]/,
      /nodejs_eventloop_lag_p99_seconds/,
    ]) {
      expect(text).toMatch(sample);
    }
  });
});

describe('the metrics server', () => {
  const registry = new Registry();
  let server: Server;
  let port: number;
  const get = (path: string): Promise<Response> => fetch(`http://127.0.0.1:${port}${path}`);

  beforeEach(async () => {
    registry.clear();
    server = await serveMetrics(registry, '127.0.0.1', 0);
    ({ port } = server.address() as AddressInfo);
  });
  afterEach(() => server.close());

  it('serves the registry at /metrics, and nothing else', async () => {
    new Counter({ name: 'tests_total', help: 'Tests.', registers: [registry] }).inc(3);
    const response = await get('/metrics');
    expect([response.status, response.headers.get('content-type')]).toEqual([200, registry.contentType]);
    expect(await response.text()).toContain('tests_total 3\n');
    expect((await get('/metrics?x=1')).status).toBe(200);
    for (const path of ['/', '/metrics/', '/v1/store/orders?/metrics']) {
      const other = await get(path);
      const body = { code: 'route_not_found', message: 'Metrics are at /metrics.', status: 404 };
      expect([other.status, await other.json()]).toEqual([404, body]);
    }
  });

  it('returns 500 when a metric cannot be collected', async () => {
    const collect = (): never => {
      throw new Error('secret');
    };
    new Gauge({ name: 'broken', help: 'Broken.', registers: [registry], collect });
    const response = await get('/metrics');
    const body = { code: 'internal_error', message: 'The metrics could not be collected.', status: 500 };
    expect([response.status, await response.json()]).toEqual([500, body]);
  });

  it('rejects when its port is taken', async () => {
    await expect(serveMetrics(registry, '127.0.0.1', port)).rejects.toThrow('EADDRINUSE');
  });
});
