import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { insertOrder, insertOrders, statusOf } from '../helpers/builders.js';
import { expectErrorResponse } from '../helpers/expect-error-response.js';
import { freePort } from '../helpers/free-port.js';
import { RawClient } from '../helpers/raw-client.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { startTestService, useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { exchange, requestText } from '../helpers/wire.js';

describe('requests on one connection', () => {
  const context = useTestService({ environment: { CANCEL_LOCK_TIMEOUT_MS: '30000' } });

  const cancel = (id: string): string => requestText('DELETE', `/v1/store/orders/${id}`, { key: context.key });

  it('get their responses in order, errors and successes', async () => {
    const [one = '', other = ''] = await insertOrders(context.service.db, 2);
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
    // To which Node by itself would write 100 Continue before the response.
    ['Expect: 100-continue', ['Expect: 100-continue'], 'HTTP/1.1'],
    ['an unknown expectation', ['Expect: the-unexpected'], 'HTTP/1.1'],
    ['Upgrade', ['Connection: Upgrade', 'Upgrade: websocket'], 'HTTP/1.1'],
    ['HTTP/1.0, also with keep-alive', ['Connection: keep-alive'], 'HTTP/1.0'],
  ])('are not executed after one with %s, which gets its final response', async (_what, headers, version) => {
    const id = await insertOrder(context.service.db);
    const list = requestText('GET', '/v1/store/orders', { key: context.key, headers }).replace('HTTP/1.1', version);
    const { responses, closed } = await exchange(context.service.port, list + cancel(id), { until: 'closed' });
    expect(responses.map(({ status }) => status)).toEqual([200]);
    expect(responses[0]?.headers.get('connection')).toEqual(['close']);
    expect(closed).toBe(true);
    expect(await statusOf(context.service.db, id)).toBe('pending');
  });

  it('have the response of their route without a Host, to which Node would respond by itself', async () => {
    const text = requestText('GET', '/nowhere').replace(/^Host: .*\r\n/m, '');
    expect(text).not.toContain('Host');
    const { responses } = await exchange(context.service.port, text.repeat(2), { until: 2 });
    for (const response of responses) {
      expectErrorResponse(response, 404, 'route_not_found');
    }
  });

  it.each([
    ['with Content-Length', ['Content-Length: 5'], 'hello'],
    ['in chunks', ['Transfer-Encoding: chunked'], '5;a="b"\r\nhello\r\n0\r\nX-Trailer: c\r\n\r\n'],
  ])('are read behind a body that no operation reads: %s', async (_what, headers, body) => {
    const [one = '', other = ''] = await insertOrders(context.service.db, 2);
    const text = requestText('DELETE', `/v1/store/orders/${one}`, { key: context.key, headers, body }) + cancel(other);
    const { responses } = await exchange(context.service.port, text, { until: 2 });
    expect(responses.map(({ status }) => status)).toEqual([204, 204]);
    expect(await statusOf(context.service.db, other)).toBe('cancelled');
  });

  /**
   * The body is a request that a proxy, which finds another end of the first one than the service, has not seen. VICTIM is that
   * request, a cancel, and LENGTH the length of the body.
   */
  const CHUNKED = 'Transfer-Encoding: chunked';
  const LENGTH = 'Content-Length: LENGTH';
  it.each([
    [[LENGTH, CHUNKED], '0\r\n\r\nVICTIM'],
    [['Transfer-Encoding: gzip, chunked'], '0\r\n\r\nVICTIM'],
    [[LENGTH, 'Transfer-Encoding : chunked'], '0\r\n\r\nVICTIM'],
    [['Content-Length: 0', LENGTH], 'VICTIM'],
    [['Content-Length: +0'], 'VICTIM'],
    [[CHUNKED], '0x0\r\n\r\nVICTIM'],
    [[CHUNKED], '0\n\nVICTIM'],
  ])('are not executed in the body of another one: %j %j', async (headers, body) => {
    const victim = await insertOrder(context.service.db);
    const content = body.replace('VICTIM', cancel(victim));
    const framing = headers.map((line) => line.replace('LENGTH', String(content.length)));
    const first = requestText('DELETE', '/v1/store/orders/0', { key: context.key, headers: framing, body: content });
    const last = requestText('GET', '/nowhere', { headers: ['Connection: close'] });
    const { responses } = await exchange(context.service.port, first + last, { until: 'closed' });
    expect(await statusOf(context.service.db, victim)).toBe('pending');
    // Its own response, or none when it is pending, and one to what follows.
    for (const response of responses) {
      expectErrorResponse(response, response.status, (JSON.parse(response.body) as { code: string }).code);
    }
  });
});

describe('MAX_CONNECTIONS', () => {
  const CONNECTIONS_MAX = 4;
  const context = useTestService({ environment: { MAX_CONNECTIONS: String(CONNECTIONS_MAX) } });
  const clients: RawClient[] = [];
  afterEach(async () => {
    clients.splice(0).forEach(({ socket }) => socket.destroy());
    await untilOpen(0);
  });

  const untilOpen = (count: number): Promise<void> =>
    waitFor(
      async () => (await ServiceMetrics.of(context.service.app)).sum('petstore_connections') === count,
      `${count} connections are open`,
    );

  async function open(): Promise<RawClient> {
    const client = await RawClient.open(context.service.port);
    clients.push(client);
    return client;
  }

  /** Status and `Connection` header of the response on a connection; undefined when it is closed without one. */
  async function responseOn(client: RawClient): Promise<unknown> {
    client.socket.write(requestText('GET', '/v1/nothing', { key: context.key }));
    await waitFor(() => client.closed || client.responses.length > 0, 'there is a response');
    const [response] = client.responses;
    return response && [response.status, response.headers.get('connection')?.[0]];
  }

  it('beyond half of it, a connection ends with its next response, which leaves room for probes', async () => {
    const opened = [await open(), await open(), await open()];
    await untilOpen(3);
    const responses: unknown[] = [];
    for (const client of opened) {
      responses.push(await responseOn(client));
      await untilOpen(CONNECTIONS_MAX / 2);
    }
    expect(responses).toEqual([
      [404, 'close'],
      [404, 'keep-alive'],
      [404, 'keep-alive'],
    ]);
    expect((await fetch(`${context.service.baseUrl}/health/live`)).status).toBe(200);
  });

  it('when all of them are open, probes are answered on METRICS_PORT', async () => {
    const metricsPort = await freePort();
    const service = await ServiceProcess.start({
      DATABASE_URL: context.service.url,
      MAX_CONNECTIONS: String(CONNECTIONS_MAX),
      METRICS_PORT: String(metricsPort),
    });
    try {
      for (let opened = 0; opened < CONNECTIONS_MAX; opened++) {
        clients.push(await RawClient.open(service.port));
      }
      await expect(fetch(`${service.baseUrl}/health/ready`)).rejects.toThrow('fetch failed');
      for (const probe of ['live', 'ready']) {
        const response = await fetch(`http://127.0.0.1:${metricsPort}/health/${probe}`);
        expect([response.status, await response.json()]).toEqual([200, { status: 'ok' }]);
      }
    } finally {
      await service.stop();
    }
  });
});

// A connection on which the service closes while a cancel is on its way would lose that cancel.
it('an idle connection is closed by the shipped proxies before the service does', async () => {
  const service = await startTestService();
  const { headers } = await fetch(`${service.baseUrl}/health/live`, { headers: { connection: 'keep-alive' } });
  await service.stop();
  const serviceSeconds = Number(/timeout=(\d+)/.exec(headers.get('keep-alive') ?? '')?.[1]);
  const secondsIn = (file: string, setting: RegExp): number =>
    Number(setting.exec(readFileSync(join(__dirname, '../../deploy/proxies', file), 'utf8'))?.[1]);
  expect(secondsIn('nginx.conf', /(?<=^ {2}keepalive_timeout )(\d+)s/m)).toBeLessThan(serviceSeconds);
  expect(secondsIn('Caddyfile', /(?<=keepalive )(\d+)s/)).toBeLessThan(serviceSeconds);
  // HAProxy halves the number of the connections that it keeps in each period. 15 were measured after 64 connections.
  expect(20 * secondsIn('haproxy.cfg', /(?<=pool-purge-delay )(\d+)s/)).toBeLessThan(serviceSeconds);
});
