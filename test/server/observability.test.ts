import { connect } from 'node:net';
import { untilLockWaits } from '../helpers/lock-waits.js';
import { call, cancelOrder, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { freePort } from '../helpers/free-port.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';
import { exchange, requestText } from '../helpers/wire.js';
import { waitFor } from '../helpers/wait-for.js';

interface RequestLine {
  requestId: string;
  method: string;
  route: string;
  status?: number;
  durationMs: number;
  aborted?: boolean;
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
  it('has one line per request, with method, route template, status, duration, request id, key id and plan', async () => {
    const id = await insertOrder(database.db);
    const response = await call(service.baseUrl, 'DELETE', `/store/orders/${id}`, key, { 'X-Request-Id': 'cancel-1' });
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
    expect(service.output.split('\n').filter((text) => text.includes('"cancel-1"'))).toHaveLength(1);
  });

  it.each(['with blank', 'quote"', 'a'.repeat(65), '../../etc', '{}'])(
    'has a new request id when the client sends the malformed id %j',
    async (given) => {
      const response = await call(service.baseUrl, 'GET', '/nothing', key, { 'X-Request-Id': given });
      const requestId = response.headers.get('x-request-id') ?? '';
      expect(requestId).toMatch(/^[0-9a-f-]{36}$/);
      expect(await lineOf(requestId)).toMatchObject({ route: 'unmatched', status: 404 });
    },
  );

  it('logs an early rejection like every response, without a key id', async () => {
    const response = await call(service.baseUrl, 'GET', '/store/orders', undefined, { 'X-Request-Id': 'rejected-1' });
    expect(response.status).toBe(401);
    const line = await lineOf('rejected-1');
    expect(line).toMatchObject({ route: '/v1/store/orders', status: 401 });
    expect(line.keyId).toBeUndefined();
  });

  it('has the limit that rejected a request', async () => {
    const limited = await insertKey(database.db, { requests_per_minute: 2, requests_per_day: 1 });
    await listOrders(service.baseUrl, limited.key);
    await call(service.baseUrl, 'GET', '/store/orders', limited.key, { 'X-Request-Id': 'limited-1' });
    expect(await lineOf('limited-1')).toMatchObject({ status: 429, rejection: 'per_day', keyId: limited.id });
  });

  it('never contains a key, valid or invalid, wherever a client puts it', async () => {
    const bad = `${key.slice(0, -1)}!`;
    await listOrders(service.baseUrl, key);
    await listOrders(service.baseUrl, bad);
    await call(service.baseUrl, 'GET', `/store/orders?key=${key}`, key);
    await call(service.baseUrl, 'DELETE', `/store/orders/${key}`, key);
    await call(service.baseUrl, 'GET', '/nothing', key, { 'X-Request-Id': key });
    await call(service.baseUrl, 'GET', `/${key}`, key, { 'X-Request-Id': 'last-1', Cookie: key, Referer: key });
    await lineOf('last-1');
    expect(service.output).not.toContain(key.slice(4));
    expect(service.output).not.toContain(bad.slice(4));
  });
});

const metrics = async (): Promise<string> => (await fetch(metricsUrl)).text();

describe('a request whose client disconnects before the response', () => {
  it('is logged and measured as aborted, without a status', async () => {
    const id = await insertOrder(database.db);
    const holder = await database.db.connect();
    await holder.query('BEGIN');
    await holder.query('SELECT FROM orders WHERE id = $1 FOR UPDATE', [id]);
    const ids = Array.from({ length: 5 }, (_, index) => `aborted-${index}`);
    const sockets = ids.map((requestId) => {
      const socket = connect(service.port, '127.0.0.1');
      socket.on('error', () => undefined);
      return socket.setNoDelay().on('connect', () => {
        const headers = [`X-Request-Id: ${requestId}`];
        socket.write(requestText('DELETE', `/v1/store/orders/${id}`, { key, headers }));
      });
    });
    await untilLockWaits(database.db);
    // Handled after the cancels have been read.
    await fetch(`${service.baseUrl}/health/live`);
    for (const socket of sockets) {
      socket.destroy();
    }
    const lines = await Promise.all(ids.map((requestId) => lineOf(requestId)));
    await holder.query('ROLLBACK');
    holder.release();
    expect(lines).toEqual(ids.map(() => expect.objectContaining({ method: 'DELETE', aborted: true }) as unknown));
    expect(lines.filter(({ status }) => status !== undefined)).toEqual([]);
    expect(await metrics()).toMatch(
      /_count\{http_request_method="DELETE",http_route="\/v1\/store\/orders\/\{orderId\}",error_type="aborted"\} 5/,
    );
  });
});

describe('a request that never reaches a route', () => {
  it.each([
    ['rejected by the parser', 'hello\r\n\r\n', { method: '_OTHER', route: 'unmatched', status: 400 }],
    [
      'CONNECT',
      'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n',
      { method: 'CONNECT', route: 'unmatched', status: 400 },
    ],
    [
      'rejected for its framing',
      'GET /v1/store/orders HTTP/1.1\r\n\r\n',
      { method: 'GET', route: '/v1/store/orders', status: 400 },
    ],
  ])('is logged with the request id of its response and measured: %s', async (_kind, text, expected) => {
    const { responses } = await exchange(service.port, text, { until: 'closed' });
    const line = await lineOf(responses[0]?.headers.get('x-request-id')?.[0] ?? 'no request id');
    expect(line).toMatchObject({ ...expected, status: responses[0]?.status });
    expect(await metrics()).toMatch(
      new RegExp(`_count\\{http_request_method="${expected.method}",.*code="${String(responses[0]?.status)}"\\} [1-9]`),
    );
  });

  it('has the route template of its path when the target is in absolute form', async () => {
    const target = 'http://api.example.com/v1/store/orders?x=1';
    await exchange(service.port, requestText('GET', target, { key, headers: ['X-Request-Id: absolute-1'] }), {
      until: 1,
    });
    expect(await lineOf('absolute-1')).toMatchObject({ route: '/v1/store/orders', status: 200 });
  });
});

describe('an unexpected error', () => {
  it('is logged with the request id of its response', async () => {
    await database.db.query('ALTER TABLE orders RENAME COLUMN status TO other');
    const response = await cancelOrder(service.baseUrl, '1', key);
    await database.db.query('ALTER TABLE orders RENAME COLUMN other TO status');
    expect(response.status).toBe(500);
    const requestId = response.headers.get('x-request-id') ?? '';
    const isLogged = (line: string): boolean =>
      line.includes(requestId) && /"level":50,.*"context":"Errors".*"detail":".+"/.test(line);
    await waitFor(() => service.output.split('\n').some(isLogged), 'the error is logged');
  });
});

function valueOf(text: string, series: string): number {
  const line = text.split('\n').find((each) => each.startsWith(`${series} `));
  return Number(line?.slice(series.length) ?? 0);
}

describe('the metrics', () => {
  it('count the changes of the version of the list, and how its pieces were found', async () => {
    const list = async (): Promise<string> => (await listOrders(service.baseUrl, key)).text();
    await list();
    const before = await metrics();
    await insertOrder(database.db);
    await list();
    await list();
    const after = await metrics();
    const increaseOf = (series: string): number => valueOf(after, series) - valueOf(before, series);
    expect(increaseOf('petstore_list_version_changes_total')).toBe(1);
    expect(increaseOf('petstore_list_pieces_total{source="database"}')).toBe(1);
    expect(increaseOf('petstore_list_pieces_total{source="memory"}')).toBe(1);
  });

  it('count requests by method, route template and status, never by path', async () => {
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

  it('are not served on the public port', async () => {
    expect((await fetch(`${service.baseUrl}/metrics`)).status).toBe(404);
  });
});
