import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { lockOrder, untilLockWaits } from '../helpers/lock-waits.js';
import { CLI } from '../helpers/build.js';
import { insertKey, insertMany, insertOrder, insertOrders, statusOf } from '../helpers/builders.js';
import { cancelOrder } from '../helpers/api.js';
import { RawClient } from '../helpers/raw-client.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { createTestDatabase, useTestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';
import { requestText } from '../helpers/wire.js';

const database = useTestDatabase();
let key: string;

beforeAll(async () => {
  ({ key } = await insertKey(database.db));
});

const start = (environment: Record<string, string> = {}): Promise<ServiceProcess> =>
  ServiceProcess.start({ DATABASE_URL: database.url, CANCEL_LOCK_TIMEOUT_MS: '30000', ...environment });

const LIST = '/v1/store/orders';
/** A list of them is more than the buffers of both ends of a connection hold. */
const LIST_ORDERS = 220_000;

const cancel = (id: string, withKey = key): string => requestText('DELETE', `${LIST}/${id}`, { key: withKey });

/** Sends requests, and reads only the first bytes of the response. */
async function stalled(service: ServiceProcess, text: string): Promise<RawClient> {
  const client = await RawClient.open(service.port, text);
  await client.stall();
  return client;
}

/** Requests a list in HTTP/1.0 with curl, and reads only the first bytes: Node's client takes a reset behind data for a regular end. */
async function stalledCurl({ baseUrl }: ServiceProcess): Promise<ChildProcessByStdio<null, Readable, null>> {
  const args = ['--silent', '--http1.0', '--header', `Authorization: Bearer ${key}`, `${baseUrl}${LIST}`];
  const child = spawn('curl', args, { stdio: ['ignore', 'pipe', 'ignore'] });
  await once(child.stdout, 'readable');
  return child;
}

const untilStopping = (service: ServiceProcess): Promise<void> =>
  waitFor(() => service.output.includes('"stopping"'), 'the service stops');

/** Status and `Connection` header of each response. */
const summaryOf = (client: RawClient): string[] =>
  client.responses.map(({ status, headers }) => `${status} ${headers.get('connection')?.join() ?? ''}`);

describe('during SHUTDOWN_DELAY_SECONDS', () => {
  // Other tests count the lock waits of theirs.
  const own = useTestDatabase();
  let service: ServiceProcess;
  let ownKey: string;

  beforeAll(async () => {
    await insertMany(own.db, LIST_ORDERS);
    ({ key: ownKey } = await insertKey(own.db));
    service = await start({ DATABASE_URL: own.url, SHUTDOWN_DELAY_SECONDS: '300' });
    // Caches the key, so that a pipelined cancel starts at once, and the list.
    await (await fetch(`${service.baseUrl}${LIST}`, { headers: { Authorization: `Bearer ${ownKey}` } })).text();
  });
  afterAll(() => service.stop('SIGKILL'));

  it('responses end and say that the connection closes, and no request is executed behind that', async () => {
    const { db } = own;
    const ownCancel = (id: string): string => cancel(id, ownKey);
    const pending = await insertOrders(db, 3);
    const [locked, executed = '', last = ''] = await insertOrders(db, 3);
    const fresh = await insertOrders(db, 2);
    const [late, unused] = [await insertOrder(db), await insertOrder(db)];
    const releases = await Promise.all([...pending, locked!].map((id) => lockOrder(db, id)));
    const allPending = await RawClient.open(service.port, pending.map(ownCancel).join(''));
    // Its last response is ready, and waits for the one before it.
    const lastReady = await RawClient.open(service.port, ownCancel(locked!) + ownCancel(executed));
    const opened = await RawClient.open(service.port);
    const list = await stalled(service, requestText('GET', LIST, { key: ownKey }));
    await untilLockWaits(db);
    await waitFor(async () => (await statusOf(db, executed)) === 'cancelled', 'the second cancel is executed');

    process.kill(service.pid, 'SIGTERM');
    const isDraining = async (): Promise<boolean> =>
      (await fetch(`${service.baseUrl}/health/live`)).headers.get('connection') === 'close';
    await waitFor(isDraining, 'the drain has begun');

    allPending.socket.write(ownCancel(unused));
    lastReady.socket.write(ownCancel(last));
    opened.socket.write(fresh.map(ownCancel).join(''));
    list.socket.resume();
    await waitFor(() => list.responses.length === 1, 'the list is complete', { withinMs: 60_000 });
    list.socket.write(ownCancel(late));
    // A later request on another connection is handled after these have been read.
    await fetch(`${service.baseUrl}/health/live`);
    await Promise.all(releases.map((release) => release()));
    await Promise.all([allPending, lastReady, opened, list].map((client) => client.untilClosed()));
    expect({
      allPending: summaryOf(allPending),
      lastReady: summaryOf(lastReady),
      opened: summaryOf(opened),
      list: summaryOf(list),
    }).toEqual({
      allPending: ['204 keep-alive', '204 keep-alive', '204 close'],
      lastReady: ['204 keep-alive', '204 keep-alive', '204 close'],
      opened: ['204 close'],
      list: ['200 keep-alive', '204 close'],
    });
    expect((JSON.parse(list.responses[0]?.body ?? '') as unknown[]).length).toBeGreaterThan(LIST_ORDERS);
    const statuses = await Promise.all([unused, last, late, ...fresh].map((id) => statusOf(db, id)));
    expect(statuses).toEqual(['pending', 'cancelled', 'cancelled', 'cancelled', 'pending']);
  });
});

// At the same time: each has a process of its own, and most of the time they wait.
describe('SIGTERM', () => {
  it.concurrent('ends when nobody reads the log', async () => {
    const child = spawn(process.execPath, [CLI, 'serve'], {
      env: { ...process.env, DATABASE_URL: database.url, PORT: '0', METRICS_PORT: '0' },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    try {
      const exited = once(child, 'exit');
      let head = '';
      child.stdout.on('data', (chunk: Buffer) => (head += chunk.toString()));
      const isListening = (): boolean => head.includes('"listening"');
      await waitFor(isListening, () => `the service listens; its output: ${head}`, { withinMs: 60_000 });
      child.stdout.pause();
      const port = Number(/"port":(\d+),"msg":"listening"/.exec(head)?.[1]);
      const text = (id: string): string => requestText('GET', '/v1/nowhere', { headers: [`X-Request-Id: ${id}`] });
      // Their lines are more than the buffers of the pipe hold.
      const client = await RawClient.open(port, text('x'.repeat(64)).repeat(2_000) + text('last'));
      const hasLast = (): boolean => client.received.includes('X-Request-Id: last');
      await waitFor(hasLast, 'all requests have their response', { withinMs: 60_000 });
      client.socket.destroy();
      child.kill('SIGTERM');
      expect(await exited).toEqual([0, null]);
    } finally {
      child.kill('SIGKILL');
    }
  });

  it.concurrent('completes an in-flight cancel when SIGTERM, SIGINT or SIGHUP follows', async () => {
    const following = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;
    const services = await Promise.all(following.map(() => start()));
    const ids = await insertOrders(database.db, services.length);
    const locks = await Promise.all(ids.map((id) => lockOrder(database.db, id)));
    const responses = services.map(({ baseUrl }, index) => cancelOrder(baseUrl, ids[index]!, key));
    await untilLockWaits(database.db, services.length);
    const stopped = services.map((service) => service.stop());
    for (const [index, service] of services.entries()) {
      await untilStopping(service);
      process.kill(service.pid, following[index]);
      await locks[index]!();
      expect((await responses[index]!).status).toBe(204);
      expect(await stopped[index]).toBe(0);
      expect(service.output).toContain('"stopped"');
      expect(await statusOf(database.db, ids[index]!)).toBe('cancelled');
    }
  });

  it.concurrent('exits with 0 when signals arrive until the end of the process', async () => {
    const service = await start();
    const state: { exited: boolean } = { exited: false };
    const stopped = service.stop().finally(() => (state.exited = true));
    await untilStopping(service);
    while (!state.exited) {
      try {
        process.kill(service.pid, 'SIGTERM');
      } catch {
        // It has ended, and Node has not reported that yet.
      }
      await new Promise(setImmediate);
    }
    expect(await stopped).toBe(0);
  });

  it.concurrent('keeps responding, unready, for SHUTDOWN_DELAY_SECONDS before the grace', async () => {
    // Other tests count the lock waits of theirs.
    const own = await createTestDatabase();
    const { key: ownKey } = await insertKey(own.db);
    const [slow, id] = [await insertOrder(own.db), await insertOrder(own.db)];
    const service = await start({
      DATABASE_URL: own.url,
      SHUTDOWN_DELAY_SECONDS: '6',
      SHUTDOWN_GRACE_SECONDS: '5',
    });
    const release = await lockOrder(own.db, slow);
    const pending = cancelOrder(service.baseUrl, slow, ownKey);
    await untilLockWaits(own.db);
    const stopped = service.stop();
    await untilStopping(service);
    const ready = await fetch(`${service.baseUrl}/health/ready`);
    expect(ready.status).toBe(503);
    const live = (): Promise<number | undefined> =>
      fetch(`${service.baseUrl}/health/live`).then(
        ({ status }) => status,
        () => undefined,
      );
    expect(await live()).toBe(200);
    expect((await cancelOrder(service.baseUrl, id, ownKey)).status).toBe(204);
    await waitFor(async () => (await live()) === undefined, 'the delay has ended');
    await release();
    expect((await pending).status).toBe(204);
    expect(await stopped).toBe(0);
    await own.drop();
  });

  it.concurrent('closes a connection without a pending response at once, whatever it has sent', async () => {
    const service = await start({ SHUTDOWN_GRACE_SECONDS: '300' });
    const order = await insertOrder(database.db);
    const half = cancel(order).slice(0, -1);
    const post = requestText('POST', LIST, { headers: ['Content-Length: 9'] });
    const texts = ['', half, requestText('GET', '/health/live'), post];
    const clients = await Promise.all(texts.map((text) => RawClient.open(service.port, text)));
    const responses = (): number[] => clients.map((client) => client.responses.length);
    await waitFor(() => responses().join() === '0,0,1,1', 'those that have sent a request have a response');
    expect(await service.stop()).toBe(0);
    await Promise.all(clients.map((client) => client.untilClosed()));
    expect(responses()).toEqual([0, 0, 1, 1]);
    expect(await statusOf(database.db, order)).toBe('pending');
  });

  it.concurrent('sends what a client has not read yet of responses that have ended', async () => {
    const service = await start();
    const RESPONSES = 8;
    // More than the buffers of both ends of a connection hold.
    const page = requestText('GET', '/docs/swagger-ui-bundle.js');
    await (await fetch(`${service.baseUrl}/docs/swagger-ui-bundle.js`)).text();
    const client = await stalled(service, page.repeat(RESPONSES));
    const stopped = service.stop();
    await untilStopping(service);
    client.socket.resume();
    expect(await stopped).toBe(0);
    await client.untilClosed();
    expect(client.responses.map(({ status }) => status)).toEqual(Array<number>(RESPONSES).fill(200));
  });

  it.concurrent('cuts a list that outlasts the grace period, and never so that it looks complete', async () => {
    await insertMany(database.db, LIST_ORDERS);
    // So that it is streamed, without a Content-Length.
    const service = await start({ SHUTDOWN_GRACE_SECONDS: '1', LIST_CACHE_MB: '0' });
    const [list, curl] = await Promise.all([stalled(service, requestText('GET', LIST, { key })), stalledCurl(service)]);
    expect(await service.stop()).toBe(0);
    list.socket.resume();
    await list.untilClosed();
    expect(list.received.toString('latin1')).toContain('HTTP/1.1 200 OK');
    // The last chunk of a complete chunked body is empty (RFC 9112 section 7.1).
    expect(list.endsWith('0\r\n\r\n')).toBe(false);
    curl.stdout.resume();
    // In HTTP/1.0 a regular close is the end of the body: the connection is reset, for which curl has this exit code.
    expect(await once(curl, 'close')).toEqual([56, null]);
  });
});
