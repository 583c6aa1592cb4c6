import { createServer } from 'node:net';
import { call, cancelOrder, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { listen } from '../helpers/listen.js';
import { lockOrder } from '../helpers/lock-waits.js';
import { OtlpReceiver, type ReceivedSpan } from '../helpers/otlp-receiver.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';

const SERVER = 2;
const CLIENT = 3;
const ERROR = 2;

const TRACE_ID = '4bf92f3577b34da6a3ce929d0e0e4736';
const CALLER_SPAN_ID = '00f067aa0ba902b7';
const TRACEPARENT = `00-${TRACE_ID}-${CALLER_SPAN_ID}-01`;

const database = useTestDatabase();
let key: string;
beforeAll(async () => {
  ({ key } = await insertKey(database.db));
});

describe('with OTEL_EXPORTER_OTLP_ENDPOINT', () => {
  let receiver: OtlpReceiver;
  let service: ServiceProcess;
  beforeAll(async () => {
    receiver = await OtlpReceiver.start();
    service = await ServiceProcess.start({
      DATABASE_URL: database.url,
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_BSP_SCHEDULE_DELAY: '20',
    });
  });
  afterAll(async () => {
    await service.stop();
    await receiver.stop();
  });

  /** The span of the request that was sent with this id. */
  async function spanOf(requestId: string): Promise<ReceivedSpan> {
    const matches = ({ attributes }: ReceivedSpan): boolean =>
      [attributes['http.request.header.x-request-id']].flat()[0] === requestId;
    await waitFor(() => receiver.spans.some(matches), 'the span arrives');
    return receiver.spans.find(matches)!;
  }

  /** What ends before its parent arrives before it. */
  const childrenOf = ({ spanId }: ReceivedSpan): ReceivedSpan[] =>
    receiver.spans.filter(({ parentSpanId }) => parentSpanId === spanId);

  it('a cancel is a span in the trace of its caller, with its statement as a child', async () => {
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
    expect(childrenOf(span)).toMatchObject([
      {
        traceId: TRACE_ID,
        kind: CLIENT,
        name: 'UPDATE orders',
        attributes: { 'db.system.name': 'postgresql', 'db.operation.name': 'UPDATE', 'db.collection.name': 'orders' },
      },
    ]);
  });

  it('a list without traceparent is a trace of its own, with its COPY as a child, and from memory without one', async () => {
    await insertOrder(database.db);
    for (const id of ['list-1', 'list-2', 'list-3']) {
      await (await listOrders(service.baseUrl, key, { 'X-Request-Id': id })).text();
    }
    const [first, last] = [await spanOf('list-1'), await spanOf('list-3')];
    expect(first.parentSpanId).toBeUndefined();
    expect(first.traceId).not.toBe(TRACE_ID);
    const copy = expect.objectContaining({ traceId: first.traceId, kind: CLIENT, name: 'COPY orders' }) as unknown;
    expect(childrenOf(first)).toContainEqual(copy);
    expect(childrenOf(last)).toEqual([]);
  });

  it('a 503 is an error of its span and of the span of its statement', async () => {
    const id = await insertOrder(database.db);
    const release = await lockOrder(database.db, id);
    const headers = { 'X-Request-Id': 'locked-1' };
    const response = await call(service.baseUrl, 'DELETE', `/store/orders/${id}`, key, headers);
    await release();
    expect(response.status).toBe(503);
    const span = await spanOf('locked-1');
    expect(span).toMatchObject({ status: { code: ERROR }, attributes: { 'error.type': '503' } });
    expect(childrenOf(span).map(({ status }) => status.code)).toContain(ERROR);
  });

  it('no span has a key, valid or invalid, wherever the request has it', async () => {
    const bad = `${key.slice(0, -1)}!`;
    await listOrders(service.baseUrl, bad);
    await call(service.baseUrl, 'GET', `/store/orders?key=${key}`, key);
    await call(service.baseUrl, 'DELETE', `/store/orders/${key}`, key);
    const headers = { 'X-Request-Id': 'last-1', Cookie: key, baggage: `key=${key}` };
    await call(service.baseUrl, 'GET', `/${key}`, key, headers);
    await spanOf('last-1');
    expect(receiver.text).not.toContain(key.slice(4));
    expect(receiver.text).not.toContain(bad.slice(4));
  });
});

// At the same time: each has a process of its own.
describe('OpenTelemetry', () => {
  it.concurrent('exports in protobuf, before the service exits, as the OTEL_ variables say', async () => {
    const receiver = await OtlpReceiver.start();
    const service = await ServiceProcess.start({
      DATABASE_URL: database.url,
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${receiver.url}/v1/traces`,
      OTEL_BSP_SCHEDULE_DELAY: '3600000',
      OTEL_SERVICE_NAME: 'petstore-test',
      OTEL_TRACES_SAMPLER: 'parentbased_always_off',
    });
    await cancelOrder(service.baseUrl, '404404', key);
    await (await listOrders(service.baseUrl, key, { traceparent: TRACEPARENT })).text();
    expect(await service.stop()).toBe(0);
    await receiver.stop();
    expect([...receiver.contentTypes]).toEqual(['application/x-protobuf']);
    expect(receiver.text).toContain('petstore-test');
    expect(receiver.text).toContain('GET /v1/store/orders');
    // Its caller does not sample it.
    expect(receiver.text).not.toContain('DELETE');
  });

  it.concurrent('delays neither requests nor the stop when its receiver does not respond', async () => {
    const silent = createServer();
    const endpoint = `http://127.0.0.1:${await listen(silent)}`;
    const service = await ServiceProcess.start({ DATABASE_URL: database.url, OTEL_EXPORTER_OTLP_ENDPOINT: endpoint });
    expect((await cancelOrder(service.baseUrl, '404404', key)).status).toBe(404);
    expect(await service.stop()).toBe(0);
    silent.close();
    expect(service.output).toContain('failed to export the last spans: Error: no response within 2000 ms');
  });
});
