import { call, cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { lockTable, lockWaits, untilLockWaits } from '../helpers/lock-waits.js';
import { waitFor } from '../helpers/wait-for.js';
import { expectWholeList, useSlowClients } from './slow-clients.js';

const slow = useSlowClients();

async function expectUnavailable(response: Response, message: string): Promise<void> {
  expect(response.headers.get('retry-after')).toBe('1');
  expect(await errorOf(response)).toEqual({ status: 503, code: 'service_unavailable', message });
}

async function statusOfWhole(response: Response): Promise<number> {
  await response.arrayBuffer();
  return response.status;
}

it('a key has an eighth of MAX_CONNECTIONS: 503, while its cancels and lists of others go on', async () => {
  await slow.start({ MAX_CONNECTIONS: '32' });
  const { database, service, key } = slow;
  const { key: other } = await insertKey(database.db);
  const id = await insertOrder(database.db, { id: slow.nextId() });
  while (slow.clients.length < 32 / 8) {
    await slow.stall();
  }
  const message = 'Too many order lists of this key are being sent; retry shortly.';
  await expectUnavailable(await listOrders(service.baseUrl, key), message);
  expect((await listOrders(service.baseUrl, key, { 'If-None-Match': '*' })).status).toBe(304);
  expect((await cancelOrder(service.baseUrl, id, key)).status).toBe(204);
  await expectWholeList(slow, 'gzip', other);
  slow.clients[0]?.socket.destroy();
  const isListed = async (): Promise<boolean> => {
    const { status, body } = await listOrders(service.baseUrl, key);
    await body?.cancel();
    return status === 200;
  };
  await waitFor(isListed, 'the key has one less');
});

it('a key has a quarter of LIST_CONCURRENCY, or all keys have all of it: 503, also while cancels and 304 go on', async () => {
  await slow.start({ LIST_CONCURRENCY: '4', LIST_CACHE_MB: '0' });
  const { database, service, key } = slow;
  const id = await insertOrder(database.db, { id: slow.nextId() });
  await slow.stall();
  await slow.untilHeld(1);
  const message = 'Too many order lists of this key are being read; retry shortly.';
  await expectUnavailable(await listOrders(service.baseUrl, key), message);
  await slow.holdStreams(3);
  const { key: other } = await insertKey(database.db);
  const response = await listOrders(service.baseUrl, other);
  await expectUnavailable(response, 'The service is temporarily unavailable; retry shortly.');
  expect((await cancelOrder(service.baseUrl, id, key)).status).toBe(204);
  expect((await listOrders(service.baseUrl, key, { 'If-None-Match': '*' })).status).toBe(304);
  expect((await call(service.baseUrl, 'HEAD', '/store/orders', key)).status).toBe(200);
  // All of them had their response while every list still had its connection.
  expect(await slow.streamConnectionsInUse()).toBe(4);
  slow.clients[0]?.socket.destroy();
  await expectWholeList(slow, 'identity', other);
});

it('slow clients have all streams: a build of the image waits for none', async () => {
  const { db } = slow.database;
  // Without a trigger there are no versions, so that lists are streamed although there is memory.
  await db.query('ALTER TABLE orders DISABLE TRIGGER orders_note_update');
  await slow.start({ LIST_CONCURRENCY: '2' });
  await slow.holdStreams(2);
  await db.query('ALTER TABLE orders ENABLE ALWAYS TRIGGER orders_note_update');
  for (const encoding of ['gzip', 'identity']) {
    expect((await expectWholeList(slow, encoding)).headers.has('content-length')).toBe(true);
  }
  expect(await slow.streamConnectionsInUse()).toBe(2);
  expect(slow.clients.flatMap(({ responses }) => responses)).toEqual([]);
});

it.each([
  ['streamed', '0', 2],
  ['built', '64', 1],
])(
  'the table stays locked: 503 for lists that are %s, and no waiting backend is left',
  async (_how, cacheMb, waits) => {
    await slow.start({ LIST_CACHE_MB: cacheMb });
    const { db } = slow.database;
    const statuses = async (): Promise<number[]> => {
      const lists = [listOrders(slow.service.baseUrl, slow.key), listOrders(slow.service.baseUrl, slow.key)];
      return Promise.all(lists.map(async (list) => statusOfWhole(await list)));
    };
    expect(await statuses()).toEqual([200, 200]);
    await insertOrder(db, { id: slow.nextId() });
    const unlock = await lockTable(db, 'orders');
    const rejected = statuses();
    // Not for all: the first may have got its 503 before the last waits.
    await untilLockWaits(db, 1, 'petstore-list');
    expect(await lockWaits(db, 'petstore-list')).toBeLessThanOrEqual(waits);
    expect(await rejected).toEqual([503, 503]);
    expect(await lockWaits(db, 'petstore-list')).toBe(0);
    await unlock();
    expect(await statuses()).toEqual([200, 200]);
  },
);
