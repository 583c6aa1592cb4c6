import { createServer } from 'node:net';
import { join } from 'node:path';
import { call, cancelOrder, listOrders } from '../helpers/api.js';
import { UNBUNDLED_CLI } from '../helpers/build.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { freePort } from '../helpers/free-port.js';
import { listen } from '../helpers/listen.js';
import { lockOrder } from '../helpers/lock-waits.js';
import { OtlpReceiver, type ReceivedSpan } from '../helpers/otlp-receiver.js';
import { StalledClient } from '../helpers/raw-http.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';

const SERVER = 2;
const CLIENT = 3;
const ERROR = 2;

/** More than the buffers of both ends of a connection hold. */
const ORDERS = 170_000;

const TRACE_ID = '4bf92f3577b34da6a3ce929d0e0e4736';
const CALLER_SPAN_ID = '00f067aa0ba902b7';
const TRACEPARENT = `00-${TRACE_ID}-${CALLER_SPAN_ID}-01`;

const database = useTestDatabase();
let receiver: OtlpReceiver;
let key: string;

beforeAll(async () => {
  receiver = await OtlpReceiver.start();
  ({ key } = await insertKey(database.db));
});
afterAll(() => receiver.stop());

const start = (environment: Record<string, string>): Promise<ServiceProcess> =>
  ServiceProcess.start({ DATABASE_URL: database.url, ...environment });

/** Reports which modules of OpenTelemetry the service has loaded. The bundle contains them, so their names do not appear. */
const startUnbundled = (environment: Record<string, string>): Promise<ServiceProcess> => {
  const report = join(__dirname, '..', 'helpers', 'report-opentelemetry.mjs');
  return ServiceProcess.start(
    { DATABASE_URL: database.url, NODE_OPTIONS: `--import ${report}`, ...environment },
    UNBUNDLED_CLI,
  );
};

describe('with OTEL_EXPORTER_OTLP_ENDPOINT', () => {
  let service: ServiceProcess;

  beforeAll(async () => {
    service = await start({
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_BSP_SCHEDULE_DELAY: '20',
    });
  });
  afterAll(() => service.stop());

  async function spanWhere(matches: (span: ReceivedSpan) => boolean): Promise<ReceivedSpan> {
    await waitFor(() => receiver.spans.some(matches), 'the span arrives');
    return receiver.spans.find(matches)!;
  }
  /** The span of the request that was sent with this id. */
  const spanOf = (requestId: string): Promise<ReceivedSpan> =>
    spanWhere(({ attributes }) => [attributes['http.request.header.x-request-id']].flat()[0] === requestId);
  const childOf = (parent: ReceivedSpan): Promise<ReceivedSpan> =>
    spanWhere(({ parentSpanId }) => parentSpanId === parent.spanId);

  it('records a cancel as a span in the trace of its caller, with its statement as a child', async () => {
    const id = await insertOrder(database.db);
    const headers = { 'X-Request-Id': 'cancel-1', traceparent: TRACEPARENT };
    expect((await call(service.baseUrl, 'DELETE', `/store/orders/${id}`, key, headers)).status).toBe(204);
    const span = await spanOf('cancel-1');
    expect(span).toMatchObject({
      traceId: TRACE_ID,
      parentSpanId: CALLER_SPAN_ID,
      kind: SERVER,
      name: 'DELETE /v1/store/orders/{orderId}',
      attributes: {
        'http.request.method': 'DELETE',
        'http.route': '/v1/store/orders/{orderId}',
        'http.response.status_code': 204,
        'url.scheme': 'http',
      },
      resource: { 'service.name': 'petstore-orders' },
    });
    expect(span.status.code).not.toBe(ERROR);
    expect(await childOf(span)).toMatchObject({
      traceId: TRACE_ID,
      kind: CLIENT,
      name: 'UPDATE orders',
      attributes: { 'db.system.name': 'postgresql', 'db.operation.name': 'UPDATE', 'db.collection.name': 'orders' },
    });
  });

  it('records both statements of a cancel that has lost', async () => {
    const id = await insertOrder(database.db, { status: 'shipped' });
    const headers = { 'X-Request-Id': 'cancel-2' };
    expect((await call(service.baseUrl, 'DELETE', `/store/orders/${id}`, key, headers)).status).toBe(409);
    const { spanId } = await spanOf('cancel-2');
    const statements = receiver.spans.filter(({ parentSpanId }) => parentSpanId === spanId).map(({ name }) => name);
    expect(statements.sort()).toEqual(['UPDATE orders', 'UPDATE orders']);
  });

  it('records a list and its statement in a new trace when the request has no traceparent', async () => {
    const response = await call(service.baseUrl, 'GET', '/store/orders', key, { 'X-Request-Id': 'list-1' });
    await response.text();
    const span = await spanOf('list-1');
    expect(span.parentSpanId).toBeUndefined();
    expect(span.traceId).not.toBe(TRACE_ID);
    expect(await childOf(span)).toMatchObject({ traceId: span.traceId, kind: CLIENT, name: 'COPY orders' });
  });

  it('records no statement for a list from memory', async () => {
    for (const id of ['memory-1', 'memory-2', 'memory-3']) {
      await (await call(service.baseUrl, 'GET', '/store/orders', key, { 'X-Request-Id': id })).text();
    }
    const span = await spanOf('memory-2');
    // What ends before it arrives before it.
    await spanOf('memory-3');
    expect(receiver.spans.filter(({ parentSpanId }) => parentSpanId === span.spanId)).toEqual([]);
  });

  it('ends the span of a COPY before the response to a slow client, whose disconnection marks the request as an error', async () => {
    await database.db.query(
      `INSERT INTO orders (id, pet_id, quantity) SELECT 1000000 + n, n, 1 FROM generate_series(1, ${ORDERS}) AS n`,
    );
    const copies = (): number => receiver.spans.filter(({ name }) => name === 'COPY orders').length;
    const before = copies();
    const reader = await StalledClient.open(service.port, key);
    await waitFor(() => copies() > before, 'the span arrives');
    expect(reader.isComplete).toBe(false);
    reader.disconnect();
    // The span of its request ends now.
    const span = await spanWhere(({ attributes }) => attributes['error.type'] === 'aborted');
    expect(span).toMatchObject({ name: 'GET /v1/store/orders', status: { code: ERROR } });
    await database.db.query('DELETE FROM orders');
  });

  it('records an early rejection as a span, without a route when none matches', async () => {
    await call(service.baseUrl, 'GET', '/nothing', undefined, {
      'X-Request-Id': 'rejected-1',
      traceparent: 'nonsense',
    });
    const span = await spanOf('rejected-1');
    expect(span).toMatchObject({ name: 'GET', attributes: { 'http.response.status_code': 401 } });
    expect(span.attributes).not.toHaveProperty('http.route');
    expect(span.status.code).not.toBe(ERROR);
  });

  it('records the number of cancels that share a statement', async () => {
    const CANCELS = 30;
    const sizes = (): number[] =>
      receiver.spans
        .filter(({ name }) => name === 'UPDATE orders')
        .map(({ attributes }) => Number(attributes['db.operation.batch.size'] ?? 1));
    let expected = sizes().length;
    // Whether cancels share a statement depends on timing, so this is repeated until some do.
    const areShared = async (): Promise<boolean> => {
      const ids = await Promise.all(Array.from({ length: CANCELS }, () => insertOrder(database.db)));
      await Promise.all(ids.map((id) => cancelOrder(service.baseUrl, id, key)));
      expected += CANCELS;
      return sizes().some((size) => size > 1);
    };
    await waitFor(areShared, 'the span of a shared statement arrives');
    const sum = (): number => sizes().reduce((total, size) => total + size, 0);
    await waitFor(() => sum() >= expected, 'the spans of all statements arrive');
    expect(sum()).toBe(expected);
  });

  it('marks a 503 as an error on the spans of the request and the statement', async () => {
    const id = await insertOrder(database.db);
    const release = await lockOrder(database.db, id);
    const headers = { 'X-Request-Id': 'locked-1' };
    const response = await call(service.baseUrl, 'DELETE', `/store/orders/${id}`, key, headers);
    await release();
    expect(response.status).toBe(503);
    const span = await spanOf('locked-1');
    expect(span).toMatchObject({ status: { code: ERROR }, attributes: { 'error.type': '503' } });
    await waitFor(
      () => receiver.spans.some(({ parentSpanId, status }) => parentSpanId === span.spanId && status.code === ERROR),
      'the span of the failed statement arrives',
    );
  });

  it('marks a 500 as an error', async () => {
    await database.db.query(`
      CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'of the test'; END $$;
      CREATE TRIGGER fail BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION fail()`);
    const path = `/store/orders/${await insertOrder(database.db)}`;
    const response = await call(service.baseUrl, 'DELETE', path, key, { 'X-Request-Id': 'failed-1' });
    await database.db.query('DROP TRIGGER fail ON orders; DROP FUNCTION fail()');
    expect(response.status).toBe(500);
    const { status, attributes } = await spanOf('failed-1');
    expect([status.code, attributes['error.type']]).toEqual([ERROR, '500']);
  });

  it('records no API key, valid or invalid, wherever the request contains it', async () => {
    const bad = `${key.slice(0, -1)}!`;
    await listOrders(service.baseUrl, bad);
    await call(service.baseUrl, 'GET', `/store/orders?key=${key}`, key);
    await call(service.baseUrl, 'DELETE', `/store/orders/${key}`, key);
    await call(service.baseUrl, 'GET', `/${key}`, key, {
      'X-Request-Id': 'last-1',
      Cookie: key,
      baggage: `key=${key}`,
      tracestate: `key=${key.toLowerCase()}`,
    });
    await spanOf('last-1');
    expect(receiver.text).not.toContain(key.slice(4));
    expect(receiver.text).not.toContain(bad.slice(4));
  });
});

// At the same time: each has a process of its own.
describe('OpenTelemetry', () => {
  it.concurrent('exports the last spans before the service exits, and applies the OTEL_ variables', async () => {
    const service = await startUnbundled({
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_BSP_SCHEDULE_DELAY: '3600000',
      OTEL_SERVICE_NAME: 'petstore-test',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
      OTEL_TRACES_SAMPLER: 'parentbased_always_off',
    });
    await call(service.baseUrl, 'GET', '/unsampled', key);
    await call(service.baseUrl, 'GET', '/sampled', key, { traceparent: TRACEPARENT });
    expect(await service.stop()).toBe(0);
    expect(receiver.spans.filter(({ resource }) => resource['service.name'] === 'petstore-test')).toEqual([
      expect.objectContaining({
        traceId: TRACE_ID,
        resource: expect.objectContaining({ 'deployment.environment.name': 'test' }) as unknown,
      }),
    ]);
    expect(service.output).toMatch(/loaded: .*"@opentelemetry\/sdk-node"/);
  });

  it.concurrent.each<[what: string, environment: (url: string) => Record<string, string>]>([
    ['OTEL_EXPORTER_OTLP_ENDPOINT alone', (url) => ({ OTEL_EXPORTER_OTLP_ENDPOINT: url })],
    ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT alone', (url) => ({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${url}/v1/traces` })],
  ])('exports in protobuf with %s', async (_what, environment) => {
    const own = await OtlpReceiver.start();
    const service = await start(environment(own.url));
    await (await listOrders(service.baseUrl, key)).text();
    expect(await service.stop()).toBe(0);
    await own.stop();
    expect([...own.contentTypes]).toEqual(['application/x-protobuf']);
    expect(own.text).toContain('GET /v1/store/orders');
    expect(own.text).toContain('COPY orders');
    expect(own.text).not.toContain(key.slice(4));
  });

  it.concurrent.each([{ OTEL_SDK_DISABLED: 'true' }, { OTEL_TRACES_EXPORTER: 'none' }])(
    'exports nothing with %j',
    async (environment) => {
      const own = await OtlpReceiver.start();
      const service = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: own.url, ...environment });
      await (await listOrders(service.baseUrl, key)).text();
      expect(await service.stop()).toBe(0);
      await own.stop();
      expect(own.contentTypes.size).toBe(0);
    },
  );

  it.concurrent('delays neither requests nor the shutdown when the receiver does not respond', async () => {
    const service = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${await freePort()}` });
    const id = await insertOrder(database.db);
    expect((await cancelOrder(service.baseUrl, id, key)).status).toBe(204);
    expect(await service.stop()).toBe(0);
    expect(service.output).toMatch(/"context":"OpenTelemetry"/);
  });

  it.concurrent('gives up a receiver that does not respond, at the end of the service', async () => {
    const silent = createServer();
    const service = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${await listen(silent)}` });
    await (await listOrders(service.baseUrl, key)).text();
    expect(await service.stop()).toBe(0);
    silent.close();
    expect(service.output).toContain('failed to export the last spans: Error: no response within 2000 ms');
  });

  it.concurrent('is not loaded without an endpoint', async () => {
    const service = await startUnbundled({
      OTEL_TRACES_SAMPLER: 'always_on',
      OTEL_SERVICE_NAME: 'petstore-silent',
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf',
    });
    const id = await insertOrder(database.db);
    expect((await cancelOrder(service.baseUrl, id, key)).status).toBe(204);
    expect(await service.stop()).toBe(0);
    // prom-client loads the API, which does nothing without the SDK.
    expect(service.output).toMatch(/loaded: \[("@opentelemetry\/api")?\]/);
    expect(receiver.text).not.toContain('petstore-silent');
  });
});
