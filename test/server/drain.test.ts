import type { PoolClient } from 'pg';
import type { ServiceHttpAdapter } from '../../src/http/service-http-adapter.js';
import { untilLockWaits } from '../helpers/lock-waits.js';
import { insertKey, insertMany, insertOrder, insertOrders, statusOf } from '../helpers/builders.js';
import { RawClient } from '../helpers/raw-client.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { requestText } from '../helpers/wire.js';

const database = useTestDatabase();
let service: TestService;
let key: string;
let holder: PoolClient;
beforeAll(async () => {
  ({ key } = await insertKey(database.db));
});
beforeEach(async () => {
  service = await startTestService({ database, environment: { CANCEL_LOCK_TIMEOUT_MS: '10000' } });
  // Caches the key, so that a pipelined cancel starts at once.
  await fetch(`${service.baseUrl}/v1/nowhere`, { headers: { Authorization: `Bearer ${key}`, Connection: 'close' } });
  holder = await service.db.connect();
});
afterEach(async () => {
  await holder.query('ROLLBACK');
  holder.release();
  await service.stop();
});

const adapter = (): ServiceHttpAdapter => service.app.getHttpAdapter() as unknown as ServiceHttpAdapter;
const cancel = (id: string): string => requestText('DELETE', `/v1/store/orders/${id}`, { key });

/** Status and `Connection` header of each response. */
const summaryOf = (client: RawClient): string[] =>
  client.responses.map(({ status, headers }) => `${status} ${headers.get('connection')?.join() ?? ''}`);

async function lock(...ids: string[]): Promise<void> {
  await holder.query('BEGIN');
  await holder.query('SELECT FROM orders WHERE id = ANY($1::bigint[]) FOR UPDATE', [ids]);
}

const statusesOf = (ids: readonly string[]): Promise<unknown[]> =>
  Promise.all(ids.map((id) => statusOf(service.db, id)));

/** Begins the drain, sends more, and releases the locks when that has been read. */
async function drainBefore(client: RawClient, text: string): Promise<void> {
  adapter().connections.startDraining();
  client.socket.write(text);
  // A later request on another connection is handled after the text has been read.
  await fetch(`${service.baseUrl}/health/live`);
  await holder.query('ROLLBACK');
  await client.untilClosed();
}

describe('pipelined cancels during a drain', () => {
  it('get every pending response, with Connection: close on the last, and none is executed after it', async () => {
    const ids = await insertOrders(service.db, 3);
    const late = await insertOrder(service.db);
    await lock(...ids);
    const client = await RawClient.open(service.port, ids.map(cancel).join(''));
    await untilLockWaits(service.db);
    await drainBefore(client, cancel(late));
    expect(summaryOf(client)).toEqual(['204 keep-alive', '204 keep-alive', '204 close']);
    expect(await statusesOf([...ids, late])).toEqual(['cancelled', 'cancelled', 'cancelled', 'pending']);
  });

  it('include the next one that arrives when the last one had been executed before the drain', async () => {
    const [one = '', other = '', late = ''] = await insertOrders(service.db, 3);
    await lock(one);
    const client = await RawClient.open(service.port, cancel(one) + cancel(other));
    await untilLockWaits(service.db);
    await waitFor(async () => (await statusOf(service.db, other)) === 'cancelled', 'the second cancel is executed');
    await drainBefore(client, cancel(late));
    expect(summaryOf(client)).toEqual(['204 keep-alive', '204 keep-alive', '204 close']);
    expect(await statusOf(service.db, late)).toBe('cancelled');
  });

  it('are executed up to the first when they arrive together after the drain has begun', async () => {
    const ids = await insertOrders(service.db, 3);
    const client = await RawClient.open(service.port);
    adapter().connections.startDraining();
    client.socket.write(ids.map(cancel).join(''));
    await client.untilClosed();
    expect(summaryOf(client)).toEqual(['204 close']);
    expect(await statusesOf(ids)).toEqual(['cancelled', 'pending', 'pending']);
  });
});

describe('a list whose headers were sent before the drain', () => {
  // About 13 MB: more than the buffers of both ends of a connection hold.
  const ORDERS = 220_000;
  beforeAll(async () => {
    await database.db.query('TRUNCATE orders');
    await insertMany(database.db, ORDERS);
  });
  afterAll(() => database.db.query('TRUNCATE orders'));

  async function startList(): Promise<RawClient> {
    const client = await RawClient.open(service.port, requestText('GET', '/v1/store/orders', { key }));
    await client.stall();
    return client;
  }

  it('is sent in full, and the next response on its connection carries Connection: close', async () => {
    const client = await startList();
    adapter().connections.startDraining();
    client.socket.resume();
    await waitFor(() => client.endsWith('}]'), 'the list is complete');
    client.socket.write(requestText('GET', '/health/live'));
    await client.untilClosed();
    expect(summaryOf(client)).toEqual(['200 keep-alive', '200 close']);
    expect(JSON.parse(client.responses[0]?.body ?? '')).toHaveLength(ORDERS);
  });

  it('is sent in full, and its connection is closed after it when the server closes', async () => {
    const client = await startList();
    const closed = service.app.close();
    client.socket.resume();
    await closed;
    await client.untilClosed();
    expect(summaryOf(client)).toEqual(['200 keep-alive']);
    expect(JSON.parse(client.responses[0]?.body ?? '')).toHaveLength(ORDERS);
  });
});

describe('closing the server', () => {
  it.each([
    ['has sent nothing', ''],
    ['has sent half a request head', 'GET /v1/store/orders HTTP/1.1\r\nHost: loc'],
    ['is idle after a response', requestText('GET', '/health/live')],
    [
      'has its response and still sends a body',
      requestText('POST', '/v1/store/orders', { headers: ['Content-Length: 9'] }),
    ],
  ])('closes a connection at once that %s', async (_condition, text) => {
    const client = await RawClient.open(service.port, text);
    const count = text.includes('\r\n\r\n') ? 1 : 0;
    await waitFor(async () => (await connections()) > 0 && client.responses.length === count, 'it is as described');
    await service.app.close();
    await client.untilClosed();
    expect(client.responses).toHaveLength(count);
  });

  it('executes no request whose end arrives later', async () => {
    const id = await insertOrder(service.db);
    const client = await RawClient.open(service.port, cancel(id).slice(0, -1));
    await waitFor(async () => (await connections()) > 0, 'the connection is accepted');
    adapter().connections.endIdle();
    client.socket.write(cancel(id).slice(-1));
    await client.untilClosed();
    // Would be executed after this one.
    await fetch(`${service.baseUrl}/v1/nowhere`, { headers: { Authorization: `Bearer ${key}` } });
    expect(await statusOf(service.db, id)).toBe('pending');
  });
});

function connections(): Promise<number> {
  return new Promise((resolve, reject) => {
    service.app.getHttpServer().getConnections((error, count) => (error === null ? resolve(count) : reject(error)));
  });
}
