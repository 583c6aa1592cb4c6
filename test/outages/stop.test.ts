import { cancelOrder } from '../helpers/api.js';
import { insertKey, insertMany, insertOrder, insertOrders, statusOf } from '../helpers/builders.js';
import { CURL_EXIT, curlList } from '../helpers/curl-list.js';
import { lockOrder, untilLockWaits } from '../helpers/lock-waits.js';
import { RawClient } from '../helpers/raw-client.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';
import { requestText } from '../helpers/wire.js';

const database = useTestDatabase();
/** Tests that count lock waits have one of their own. */
const [delayed, drained] = [useTestDatabase(), useTestDatabase()];
let key: string;
let delayedKey: string;
let drainedKey: string;

beforeAll(async () => {
  ({ key } = await insertKey(database.db));
  ({ key: delayedKey } = await insertKey(delayed.db));
  ({ key: drainedKey } = await insertKey(drained.db));
});

/** Those of a test that fails would go on for their delay or grace. */
const services: ServiceProcess[] = [];
afterAll(() => Promise.all(services.map((service) => service.stop('SIGKILL'))));

async function start(environment: Record<string, string> = {}): Promise<ServiceProcess> {
  const own = { DATABASE_URL: database.url, CANCEL_LOCK_TIMEOUT_MS: '30000' };
  const service = await ServiceProcess.start({ ...own, ...environment });
  services.push(service);
  return service;
}

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

const untilStopping = (service: ServiceProcess): Promise<void> =>
  waitFor(() => service.output.includes('"stopping"'), 'the service stops');

/** Status and `Connection` header of each response. */
const summaryOf = (client: RawClient): string[] =>
  client.responses.map(({ status, headers }) => `${status} ${headers.get('connection')?.join() ?? ''}`);

// At the same time: each has a process of its own, and most of the time they wait.
describe('SIGTERM', () => {
  it.concurrent('lets the service respond, unready, for SHUTDOWN_DELAY_SECONDS', async () => {
    const id = await insertOrder(database.db);
    const service = await start({ SHUTDOWN_DELAY_SECONDS: '300' });
    process.kill(service.pid, 'SIGTERM');
    await untilStopping(service);
    expect((await fetch(`${service.baseUrl}/health/ready`)).status).toBe(503);
    expect((await fetch(`${service.baseUrl}/health/live`)).status).toBe(200);
    expect((await cancelOrder(service.baseUrl, id, key)).status).toBe(204);
    await service.stop('SIGKILL');
  });

  it.concurrent('lets pending requests end in the grace, when SHUTDOWN_DELAY_SECONDS have passed', async () => {
    const { db, url: DATABASE_URL } = delayed;
    const id = await insertOrder(db);
    const service = await start({ DATABASE_URL, SHUTDOWN_DELAY_SECONDS: '1', SHUTDOWN_GRACE_SECONDS: '300' });
    const release = await lockOrder(db, id);
    const pending = cancelOrder(service.baseUrl, id, delayedKey);
    await untilLockWaits(db);
    const stopped = service.stop();
    const isLive = (): Promise<boolean> =>
      fetch(`${service.baseUrl}/health/live`).then(
        () => true,
        () => false,
      );
    await waitFor(async () => !(await isLive()), 'the delay has ended');
    await release();
    expect((await pending).status).toBe(204);
    expect(await stopped).toBe(0);
    expect(service.output).toContain('"stopped"');
  });

  it.concurrent(
    'ends each connection with a response that says so during the delay, and executes nothing behind it',
    async () => {
      const { db, url: DATABASE_URL } = drained;
      const ownCancel = (id: string): string => cancel(id, drainedKey);
      await insertMany(db, LIST_ORDERS);
      const service = await start({ DATABASE_URL, SHUTDOWN_DELAY_SECONDS: '300' });
      // Caches the key, so that a pipelined cancel starts at once, and the list.
      await (await fetch(`${service.baseUrl}${LIST}`, { headers: { Authorization: `Bearer ${drainedKey}` } })).text();
      const locked = await insertOrders(db, 3);
      const [late = '', fresh = '', ...behind] = await insertOrders(db, 4);
      const releases = await Promise.all(locked.map((id) => lockOrder(db, id)));
      const pending = await RawClient.open(service.port, locked.map(ownCancel).join(''));
      const opened = await RawClient.open(service.port);
      const list = await stalled(service, requestText('GET', LIST, { key: drainedKey }));
      await untilLockWaits(db);

      process.kill(service.pid, 'SIGTERM');
      const isDraining = async (): Promise<boolean> =>
        (await fetch(`${service.baseUrl}/health/live`)).headers.get('connection') === 'close';
      await waitFor(isDraining, 'the drain has begun');
      pending.socket.write(ownCancel(behind[0]!));
      opened.socket.write(ownCancel(fresh) + ownCancel(behind[1]!));
      list.socket.resume();
      await waitFor(() => list.responses.length === 1, 'the list is complete', { withinMs: 60_000 });
      list.socket.write(ownCancel(late));
      // A later request on another connection is handled after these have been read.
      await fetch(`${service.baseUrl}/health/live`);
      await Promise.all(releases.map((release) => release()));
      await Promise.all([pending, opened, list].map((client) => client.untilClosed()));
      await service.stop('SIGKILL');
      expect([pending, opened, list].map(summaryOf)).toEqual([
        ['204 keep-alive', '204 keep-alive', '204 close'],
        ['204 close'],
        ['200 keep-alive', '204 close'],
      ]);
      expect((JSON.parse(list.responses[0]?.body ?? '') as unknown[]).length).toBeGreaterThan(LIST_ORDERS);
      const statuses = await Promise.all([late, fresh, ...behind].map((id) => statusOf(db, id)));
      expect(statuses).toEqual(['cancelled', 'cancelled', 'pending', 'pending']);
    },
  );

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

  it.concurrent(
    'cuts responses that outlast the grace period, and a list never so that it looks complete',
    async () => {
      await insertMany(database.db, LIST_ORDERS);
      // So that it is streamed, without a Content-Length.
      const service = await start({ SHUTDOWN_GRACE_SECONDS: '1', LIST_CACHE_MB: '0' });
      const list = await stalled(service, requestText('GET', LIST, { key }));
      const readByCurl = await curlList(service.baseUrl, key, { version: '1.0' });
      const locked = await insertOrder(database.db);
      const release = await lockOrder(database.db, locked);
      const pending = await RawClient.open(service.port, cancel(locked));
      await untilLockWaits(database.db);
      const stopped = service.stop();
      await pending.untilClosed();
      expect(pending.responses).toEqual([]);
      await release();
      expect(await stopped).toBe(0);
      await list.readToEnd();
      expect(list.received).toContain('HTTP/1.1 200 OK');
      expect(list.responses).toEqual([]);
      // In HTTP/1.0 a regular close is the end of the body: the connection is reset.
      expect(await readByCurl()).toBe(CURL_EXIT.receiveError);
    },
  );
});
