import { cancelOrder, listOrders } from '../helpers/api.js';
import { insertOrder } from '../helpers/builders.js';
import { expectErrorResponse } from '../helpers/expect-error-response.js';
import { RawClient } from '../helpers/raw-client.js';
import type { ServiceMetrics } from '../helpers/service-metrics.js';
import { ServiceProcess, useServiceProcess } from '../helpers/service-process.js';
import { waitFor } from '../helpers/wait-for.js';
import { requestText } from '../helpers/wire.js';

const MEGABYTE = 1_024 * 1_024;
/** Longer than the header timeout and the interval of its check. */
const DISCONNECT_WITHIN_MS = 25_000;

const context = useServiceProcess({ RATE_LIMIT_BAN_THRESHOLD: '0', MAX_CONNECTIONS: '5000' });
let clients: RawClient[];

beforeEach(() => {
  clients = [];
});
afterEach(() => {
  clients.forEach(({ socket }) => socket.destroy());
});

/** A client that leaves after the test. */
async function join(port = context.service.port, text = ''): Promise<RawClient> {
  const client = await RawClient.open(port, text);
  clients.push(client);
  return client;
}

async function expectNormalService(): Promise<void> {
  const id = await insertOrder(context.database.db);
  expect((await cancelOrder(context.service.baseUrl, id, context.key)).status).toBe(204);
  expect((await listOrders(context.service.baseUrl, context.key)).status).toBe(200);
}

describe('idle connections and clients that send their headers byte by byte', () => {
  it('delay no other client and are disconnected', async () => {
    const before = await context.metrics();
    const silent: RawClient[] = [];
    for (let batch = 0; batch < 10; batch++) {
      silent.push(...(await Promise.all(Array.from({ length: 100 }, () => join()))));
    }
    const slow = await Promise.all(Array.from({ length: 20 }, () => join()));
    const drip = setInterval(() => {
      slow.forEach(({ socket }) => socket.write('a'));
    }, 500);
    slow.forEach(({ socket }) => socket.write('GET /v1/store/orders HTTP/1.1\r\nHost: localhost\r\nX-Slow: '));
    try {
      await waitFor(async () => (await context.metrics()).openFiles > 1_000, 'all clients are connected');
      await expectNormalService();
      // Others did not wait until the crowd had gone.
      expect(silent.filter(({ closed }) => !closed).length).toBeGreaterThan(0);
      const full = await context.metrics();
      expect(full.residentBytes - before.residentBytes).toBeLessThan(100 * MEGABYTE);
      await waitFor(() => clients.every(({ closed }) => closed), 'all clients are disconnected', {
        withinMs: DISCONNECT_WITHIN_MS,
      });
    } finally {
      clearInterval(drip);
    }
    // Only clients that began a request get a response.
    expect(silent.every(({ received }) => received.length === 0)).toBe(true);
    for (const [response] of slow.map(({ responses }) => responses)) {
      expectErrorResponse(response, 408, 'request_timeout');
    }
    await waitFor(
      async () => (await context.metrics()).openFiles <= before.openFiles + 10,
      'their connections are closed',
    );
    await expectNormalService();
  });
});

describe('a client that sends many requests and does not read', () => {
  const REQUESTS = 4_000;

  it('uses little memory, and gets all responses in order when it reads', async () => {
    const before = await context.metrics();
    const client = await join();
    client.socket.pause();
    const { key } = context;
    // The ids differ, so that responses in the wrong order are detected. No order has them: others are cancelled meanwhile.
    const requests = Array.from({ length: REQUESTS }, (_, number) =>
      requestText('DELETE', `/v1/store/orders/-${number + 1}`, { key, headers: [`X-Request-Id: n${number}`] }),
    );
    client.socket.write(requests.join(''));
    const handled = (metrics: ServiceMetrics): number => metrics.sum('http_server_request_duration_seconds_count');
    const hasStopped = async (): Promise<boolean> => {
      const [now, later] = [await context.metrics(), await context.metrics()];
      return handled(now) > 100 && handled(now) === handled(later);
    };
    await waitFor(hasStopped, 'the service has stopped reading');
    await expectNormalService();
    expect(client.received.length).toBe(0);
    const held = await context.metrics();
    expect(held.residentBytes - before.residentBytes).toBeLessThan(200 * MEGABYTE);
    client.socket.resume();
    const last = `X-Request-Id: n${REQUESTS - 1}\r\n`;
    let seen = 0;
    client.socket.on('data', (chunk: Buffer) => (seen += chunk.includes(last) ? 1 : 0));
    await waitFor(() => seen > 0 || client.received.includes(last), 'the last response arrives');
    const ids = client.received.toString('latin1').match(/X-Request-Id: n\d+/g) ?? [];
    expect(ids).toEqual(Array.from({ length: REQUESTS }, (_, number) => `X-Request-Id: n${number}`));
  });
});

describe('clients that pipeline many requests without a key', () => {
  const CLIENTS = 16;
  const REQUESTS = 4_000;

  it('do not end a process with little memory', async () => {
    const small = await ServiceProcess.start({
      DATABASE_URL: context.database.url,
      NODE_OPTIONS: '--max-old-space-size=128',
    });
    try {
      const text = requestText('GET', '/v1/store/orders').repeat(REQUESTS);
      await Promise.all(Array.from({ length: CLIENTS }, () => join(small.port, text)));
      // They take turns; bounding what a client may pipeline is left to the proxy in front.
      const served = (): number => clients.filter(({ socket }) => socket.bytesRead > MEGABYTE / 4).length;
      await waitFor(() => served() >= CLIENTS / 4, 'a quarter of the clients get responses', { withinMs: 50_000 });
      // A busy process may take longer than it waits for a request head.
      const status = async (): Promise<unknown> =>
        fetch(`${small.baseUrl}/health/live`).then((response) => response.status, String);
      await waitFor(async () => (await status()) === 200, 'the process responds', { withinMs: 50_000 });
      expect(await status()).toBe(200);
    } finally {
      await small.stop('SIGKILL');
    }
  });
});
