import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type Socket, connect } from 'node:net';
import { join } from 'node:path';
import { CLI } from '../helpers/build.js';
import { insertMany, insertOrder, statusOf } from '../helpers/builders.js';
import { lockOrder, untilLockWaits } from '../helpers/lock-waits.js';
import { runProcess } from '../helpers/petstore.js';
import { RawClient } from '../helpers/raw-client.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { useServiceProcess, withFilesMax } from '../helpers/service-process.js';
import { startTestService, useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { exchange, requestText } from '../helpers/wire.js';

describe('requests on one connection', () => {
  const context = useTestService({ environment: { CANCEL_LOCK_TIMEOUT_MS: '30000' } });
  beforeAll(async () => {
    // Caches the key.
    await fetch(`${context.service.baseUrl}/v1/nowhere`, { headers: { Authorization: `Bearer ${context.key}` } });
  });

  const cancel = (id: string): string => requestText('DELETE', `/v1/store/orders/${id}`, { key: context.key });

  async function metric(name: string, labels?: string): Promise<number> {
    return (await ServiceMetrics.of(context.service.app)).sum(name, labels);
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

  // A client that reads 400 before 204 believes that its order was not cancelled.
  it('end without a response to malformed input behind one that is pending', async () => {
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

  // The cancel needs no body, so it is executed.
  it('get no response that denies it when the body of a cancel is malformed', async () => {
    const id = await insertOrder(context.service.db);
    const headers = ['Transfer-Encoding: chunked'];
    const text = requestText('DELETE', `/v1/store/orders/${id}`, {
      key: context.key,
      headers,
      body: 'no chunk\r\n\r\n',
    });
    const { responses, closed } = await exchange(context.service.port, text, { until: 'closed' });
    expect([[], [204]]).toContainEqual(responses.map(({ status }) => status));
    expect(closed).toBe(true);
    await waitFor(async () => (await statusOf(context.service.db, id)) === 'cancelled', 'the cancel is executed');
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

  it('are not executed in any number behind one that ends its connection, and it loses no response', async () => {
    const { db, port } = context.service;
    const [id, other] = [await insertOrder(db), await insertOrder(db)];
    const release = await lockOrder(db, id);
    const list = requestText('GET', '/v1/store/orders', { key: context.key });
    const headers = ['Expect: 100-continue'];
    const last = requestText('DELETE', `/v1/store/orders/${id}`, { key: context.key, headers });
    const client = await RawClient.open(port, list + last + cancel(other).repeat(100));
    await untilLockWaits(db);
    await release();
    await client.untilClosed();
    expect(client.responses.map(({ status }) => status)).toEqual([200, 204]);
    expect(await statusOf(db, other)).toBe('pending');
  });

  it('cut a list that is being sent when malformed input follows, so that it never looks complete', async () => {
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
    await context.service.db.query('DELETE FROM orders WHERE id > 1000000');
    expect(client.received.toString('latin1')).toMatch(/^HTTP\/1\.1 200 OK/);
    expect(client.responses).toEqual([]);
    expect(await listsSent()).toBe(0);
  });
});

describe('the limit of connections', () => {
  const CONNECTIONS_MAX = 4;

  const LIMITED = [...withFilesMax(400), process.execPath, CLI];

  const context = useServiceProcess({ MAX_CONNECTIONS: String(CONNECTIONS_MAX) });
  const sockets: Socket[] = [];

  async function metric(name: string): Promise<number> {
    return (await context.metrics()).sum(name);
  }

  async function open(): Promise<Socket> {
    const socket = connect(context.service.port, '127.0.0.1');
    sockets.push(socket);
    socket.on('error', () => undefined);
    await new Promise((resolve) => socket.once('connect', resolve));
    return socket;
  }

  /** The first bytes of the response, or an empty string when the service closes the connection. */
  function responseOn(socket: Socket): Promise<string> {
    return new Promise((resolve) => {
      socket.once('data', (chunk) => {
        resolve(chunk.toString());
      });
      socket.once('close', () => {
        resolve('');
      });
      socket.write(`GET /v1/nothing HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer ${context.key}\r\n\r\n`);
    });
  }

  describe('MAX_CONNECTIONS', () => {
    afterEach(() => {
      for (const socket of sockets.splice(0)) {
        socket.destroy();
      }
    });

    it('closes and counts connections beyond it, and those that are open go on', async () => {
      const dropped = await metric('petstore_connections_dropped_total');
      const opened = [await open(), await open(), await open(), await open()];
      expect(await responseOn(await open())).toBe('');
      expect(await metric('petstore_connections')).toBe(CONNECTIONS_MAX);
      expect(await metric('petstore_connections_dropped_total')).toBe(dropped + 1);
      for (const socket of opened) {
        expect(await responseOn(socket)).toMatch(/^HTTP\/1\.1 404 /);
      }
      expect(await responseOn(await open())).toMatch(/^HTTP\/1\.1 404 /);
    });

    it('keeps half of it alive: beyond that, a connection ends with its next response', async () => {
      const opened = [await open(), await open(), await open()];
      const untilOpen = (count: number): Promise<void> =>
        waitFor(async () => (await metric('petstore_connections')) === count, `${count} connections are open`);
      await untilOpen(3);
      const headers: (string | undefined)[] = [];
      for (const socket of opened) {
        headers.push(/^Connection: (.*)\r$/m.exec(await responseOn(socket))?.[1]);
        await untilOpen(CONNECTIONS_MAX / 2);
      }
      expect(headers).toEqual(['close', 'keep-alive', 'keep-alive']);
    });
  });

  it('doctor and the start of the service report a limit of open files that is too low', async () => {
    const problem = 'at most 400 open files, too few for MAX_CONNECTIONS=300: raise the limit (ulimit -n) to 500';
    const environment = { MAX_CONNECTIONS: '300', DATABASE_URL: 'postgresql://app@127.0.0.1:1/x', PORT: '1' };
    const { stdout } = await runProcess([...LIMITED, 'doctor'], environment);
    expect(stdout).toContain(`warning  open files           ${problem}\n`);
    // It may not listen on this port, or another process does.
    const service = await runProcess([...LIMITED, 'serve'], { ...environment, HOST: '192.0.2.1' });
    expect(service.stdout).toContain(`"${problem}"`);
  });
});

describe('behind a balancer', () => {
  /** How long the service keeps an idle connection, as it tells each client. */
  async function keepAliveOf(environment: Record<string, string> = {}): Promise<string | null> {
    const service = await startTestService({ environment });
    const response = await fetch(`${service.baseUrl}/health/live`, { headers: { connection: 'keep-alive' } });
    await service.stop();
    return response.headers.get('keep-alive');
  }

  let serviceSeconds: number;
  beforeAll(async () => {
    serviceSeconds = Number(/timeout=(\d+)/.exec((await keepAliveOf()) ?? '')?.[1]);
  });

  /** A connection on which the service closes while a cancel is on its way would lose that cancel. */
  it.each([
    ['proxies/nginx.conf', /(?<=^ {2}keepalive_timeout )(\d+)s/m, 1],
    // HAProxy halves the number of the connections that it keeps in each period. 15 were measured after 64 connections.
    ['proxies/haproxy.cfg', /(?<=pool-purge-delay )(\d+)s/, 20],
    ['proxies/Caddyfile', /(?<=keepalive )(\d+)s/, 1],
  ])('deploy/%s closes idle connections before the service does', (file, setting, periods) => {
    const [, seconds] = setting.exec(readFileSync(join(__dirname, '..', '..', 'deploy', file), 'utf8')) ?? [];
    expect(Number(seconds) * periods).toBeLessThan(serviceSeconds);
  });

  it('KEEP_ALIVE_TIMEOUT_SECONDS is how long the service keeps an idle connection', async () => {
    expect(await keepAliveOf({ KEEP_ALIVE_TIMEOUT_SECONDS: '120' })).toBe('timeout=120');
  });
});
