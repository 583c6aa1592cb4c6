import { connect } from 'node:net';
import { errorOf, listOrders } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { lockOrder, lockTable, untilLockWaits } from '../helpers/lock-waits.js';
import { useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { requestText } from '../helpers/wire.js';

const UNCOMPRESSED_MAX = 64;
const LIST_CONCURRENCY = 8;
/** With fewer, not all of their requests would be read before some have their response. */
const CLIENTS = 8;

const context = useTestService({ environment: { CANCEL_LOCK_TIMEOUT_MS: '30000' } });
beforeAll(async () => {
  const { service, key } = context;
  // About 15 MB: more than the buffers of both ends of a connection hold.
  await service.db.query('INSERT INTO orders (pet_id, quantity) SELECT n, 1 FROM generate_series(1, 200000) AS n');
  // Now all blocks are in memory, so that no list needs a database connection.
  await (await listOrders(service.baseUrl, key, { 'Accept-Encoding': 'gzip' })).text();
});

/** Asks for a list and leaves. */
async function statusOfList(key: string, encoding: string): Promise<number> {
  const headers = { 'Accept-Encoding': encoding, Connection: 'close' };
  const response = await listOrders(context.service.baseUrl, key, headers);
  await response.body?.cancel();
  return response.status;
}

it.each([
  ['identity', 'gzip', CLIENTS, UNCOMPRESSED_MAX / CLIENTS],
  ['gzip', 'identity', 137, 15],
] as const)(
  'lists in %s that nobody reads get 503 when all slots are held, also behind a pending response; those in %s and other keys do not',
  async (encoding, otherEncoding, clients, listsEach) => {
    const { service, key } = context;
    const release = await lockOrder(service.db, '1');
    const waiting = requestText('DELETE', '/v1/store/orders/1', { key });
    const headers = [`Accept-Encoding: ${encoding}`];
    const lists = requestText('GET', '/v1/store/orders', { key, headers }).repeat(listsEach);
    const sockets = Array.from({ length: clients }, () =>
      connect(service.port, '127.0.0.1').on('error', () => undefined),
    );
    try {
      sockets.forEach((socket) => socket.write(waiting + lists));
      await untilLockWaits(service.db);
      await waitFor(async () => (await statusOfList(key, encoding)) === 503, 'all slots are held');

      expect(await statusOfList(key, otherEncoding)).toBe(200);
      const other = await insertKey(service.db);
      expect(await statusOfList(other.key, encoding)).toBe(200);
    } finally {
      sockets.forEach((socket) => socket.destroy());
      await release();
    }
    await waitFor(async () => (await statusOfList(key, encoding)) === 200, 'the slots are free again');
  },
);

it('uncompressed lists that wait for PostgreSQL do not count as uncompressed lists that are sent', async () => {
  const { service, key } = context;
  // The list needs the database again, where it waits.
  await service.db.query('UPDATE orders SET quantity = quantity + 1 WHERE id = 1');
  const unlock = await lockTable(service.db, 'orders');
  const lists = requestText('GET', '/v1/store/orders', { key }).repeat(UNCOMPRESSED_MAX / CLIENTS);
  const sockets = Array.from({ length: CLIENTS }, () => connect(service.port, '127.0.0.1'));
  try {
    sockets.forEach((socket) => socket.on('error', () => undefined).write(lists));
    await untilLockWaits(service.db, LIST_CONCURRENCY, 'petstore-list');
    const other = await insertKey(service.db);
    const response = await listOrders(service.baseUrl, other.key, { 'Accept-Encoding': 'identity' });
    // That of a lock timeout. Without a slot it would be another one.
    const message = 'The service is temporarily unavailable; retry shortly.';
    expect(await errorOf(response)).toEqual({ status: 503, code: 'service_unavailable', message });
  } finally {
    sockets.forEach((socket) => socket.destroy());
    await unlock();
  }
});
