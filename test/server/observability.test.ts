import { call, cancelOrder, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { freePort } from '../helpers/free-port.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';

interface RequestLine {
  requestId: string;
  method: string;
  route: string;
  status: number;
  durationMs: number;
  keyId?: string;
  plan?: string;
}

let database: TestDatabase;
let service: ServiceProcess;
let metricsUrl: string;
let key: string;
let keyId: string;

beforeAll(async () => {
  database = await createTestDatabase();
  const port = await freePort();
  metricsUrl = `http://127.0.0.1:${port}/metrics`;
  service = await ServiceProcess.start({ DATABASE_URL: database.url, METRICS_PORT: String(port) });
  ({ id: keyId, key } = await insertKey(database.db));
});
afterAll(async () => {
  await service.stop();
  await database.drop();
});

async function lineOf(requestId: string): Promise<RequestLine> {
  const line = (): string | undefined => service.output.split('\n').find((text) => text.includes(`"${requestId}"`));
  await waitFor(() => line() !== undefined, `the request ${requestId} is logged`);
  return JSON.parse(line() ?? '') as RequestLine;
}

describe('the request log', () => {
  it('has one line a request, with method, route template, status, duration, request id, key id and plan', async () => {
    const id = await insertOrder(database.db);
    const response = await call(service.baseUrl, 'DELETE', `/store/orders/${id}`, key, { 'X-Request-Id': 'cancel-1' });
    expect(response.headers.get('x-request-id')).toBe('cancel-1');
    const line = await lineOf('cancel-1');
    expect(line).toMatchObject({
      method: 'DELETE',
      route: '/v1/store/orders/{orderId}',
      status: 204,
      keyId,
      plan: 'enterprise',
    });
    expect(line.durationMs).toBeGreaterThan(0);
    expect(service.output.split('\n').filter((text) => text.includes('"cancel-1"'))).toHaveLength(1);
  });

  it.each(['with blank', 'quote"', 'a'.repeat(65), '../../etc', '{}'])(
    'makes an id of its own where the caller sends the malformed %j',
    async (given) => {
      const response = await call(service.baseUrl, 'GET', '/nothing', key, { 'X-Request-Id': given });
      const requestId = response.headers.get('x-request-id') ?? '';
      expect(requestId).toMatch(/^[0-9a-f-]{36}$/);
      expect(await lineOf(requestId)).toMatchObject({ route: 'unmatched', status: 404 });
    },
  );

  it('logs a refusal before Express like any other answer, without a key id', async () => {
    const response = await call(service.baseUrl, 'GET', '/store/orders', undefined, { 'X-Request-Id': 'refused-1' });
    expect(response.status).toBe(401);
    const line = await lineOf('refused-1');
    expect(line).toMatchObject({ route: '/v1/store/orders', status: 401 });
    expect(line.keyId).toBeUndefined();
  });

  it('never holds a key, good or bad, wherever a caller puts it', async () => {
    const bad = `${key.slice(0, -1)}!`;
    await listOrders(service.baseUrl, key);
    await listOrders(service.baseUrl, bad);
    await call(service.baseUrl, 'GET', `/store/orders?key=${key}`, key);
    await call(service.baseUrl, 'DELETE', `/store/orders/${key}`, key);
    await call(service.baseUrl, 'GET', `/${key}`, key, { 'X-Request-Id': 'last-1', Cookie: key, Referer: key });
    await lineOf('last-1');
    expect(service.output).not.toContain(key.slice(4));
    expect(service.output).not.toContain(bad.slice(4));
  });
});

describe('the metrics', () => {
  const metrics = async (): Promise<string> => (await fetch(metricsUrl)).text();

  it('count requests by method, route template and status, and nothing by path', async () => {
    await cancelOrder(service.baseUrl, '424242', key);
    await call(service.baseUrl, 'GET', '/some-made-up-path', key);
    await waitFor(async () => (await metrics()).includes('unmatched'), 'the requests are counted');
    const text = await metrics();
    expect(text).toMatch(
      /http_server_request_duration_seconds_count\{http_request_method="DELETE",http_route="\/v1\/store\/orders\/\{orderId\}",http_response_status_code="404"\} [1-9]/,
    );
    expect(text).not.toContain('424242');
    expect(text).not.toContain('made-up');
  });

  it('show limiter decisions, cancels, lists and pools', async () => {
    await listOrders(service.baseUrl, key);
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

  it('are not shown to partners', async () => {
    expect((await fetch(`${service.baseUrl}/metrics`)).status).toBe(404);
  });
});
