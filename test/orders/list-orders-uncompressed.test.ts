import { connect } from 'node:net';
import { errorOf, listOrders } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { lockOrder, untilLockWaits } from '../helpers/lock-waits.js';
import { StalledClient } from '../helpers/raw-http.js';
import { useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { requestText } from '../helpers/wire.js';

const UNCOMPRESSED_MAX = 64;
const LIST_CONCURRENCY = 8;
/** With fewer, not all of their requests would be read before some are answered. */
const CLIENTS = 8;

const context = useTestService({ environment: { CANCEL_LOCK_TIMEOUT_MS: '30000' } });
beforeAll(async () => {
  const { service, key } = context;
  // About 15 MB: more than the buffers of both ends of a connection hold.
  await service.db.query('INSERT INTO orders (pet_id, quantity) SELECT n, 1 FROM generate_series(1, 200000) AS n');
  // Now all blocks are in memory, so that no list needs a database connection.
  await (await listOrders(service.baseUrl, key, { 'Accept-Encoding': 'gzip' })).text();
}, 60_000);

const listPlain = (): Promise<Response> =>
  listOrders(context.service.baseUrl, context.key, { 'Accept-Encoding': 'identity', Connection: 'close' });

describe('uncompressed lists whose clients do not read', () => {
  it('are limited to 64 and further ones get 503; compressed lists are not limited', async () => {
    const { service, key } = context;
    const stalled: StalledClient[] = [];
    for (let client = 0; client < UNCOMPRESSED_MAX; client++) {
      stalled.push(await StalledClient.open(service.port, key));
    }

    const rejected = await listPlain();
    expect(rejected.status).toBe(503);
    expect(rejected.headers.get('retry-after')).toBe('1');
    expect((await errorOf(rejected)).code).toBe('service_unavailable');
    expect((await listOrders(service.baseUrl, key, { 'Accept-Encoding': 'gzip' })).status).toBe(200);

    stalled.forEach((client) => client.disconnect());
    await waitFor(async () => {
      const response = await listPlain();
      await response.arrayBuffer();
      return response.status === 200;
    }, 'an uncompressed list is sent');
  }, 60_000);

  it('make room for another key, also behind a response that is not ready', async () => {
    const { service, key } = context;
    const release = await lockOrder(service.db, '1');
    const waiting = requestText('DELETE', '/v1/store/orders/1', { key });
    const lists = requestText('GET', '/v1/store/orders', { key }).repeat(UNCOMPRESSED_MAX / CLIENTS);
    const sockets = Array.from({ length: CLIENTS }, () =>
      connect(service.port, '127.0.0.1').on('error', () => undefined),
    );
    try {
      sockets.forEach((socket) => socket.write(waiting + lists));
      await untilLockWaits(service.db);
      await waitFor(async () => (await listPlain()).status === 503, 'all slots are held');

      const other = await insertKey(service.db);
      const response = await listOrders(service.baseUrl, other.key, { 'Accept-Encoding': 'identity' });
      await response.body?.cancel();
      expect(response.status).toBe(200);
    } finally {
      sockets.forEach((socket) => socket.destroy());
      await release();
    }
  }, 60_000);

  it('that wait for PostgreSQL do not count as uncompressed lists that are sent', async () => {
    const { service, key } = context;
    // The list needs the database again, where it waits.
    await service.db.query('UPDATE orders SET quantity = quantity + 1 WHERE id = 1');
    const session = await service.db.connect();
    await session.query('BEGIN; LOCK TABLE orders IN ACCESS EXCLUSIVE MODE');
    const lists = requestText('GET', '/v1/store/orders', { key }).repeat(UNCOMPRESSED_MAX / CLIENTS);
    const sockets = Array.from({ length: CLIENTS }, () => connect(service.port, '127.0.0.1'));
    try {
      sockets.forEach((socket) => socket.on('error', () => undefined).write(lists));
      await untilLockWaits(service.db, LIST_CONCURRENCY, 'petstore-list');
      const other = await insertKey(service.db);
      const response = await listOrders(service.baseUrl, other.key, { 'Accept-Encoding': 'identity' });
      expect((await errorOf(response)).message).not.toContain('uncompressed');
    } finally {
      sockets.forEach((socket) => socket.destroy());
      await session.query('ROLLBACK');
      session.release();
    }
  });
});
