import { lockTable, lockWaits, openTransaction, untilLockWaits } from '../helpers/lock-waits.js';
import { listOrders } from '../helpers/api.js';
import { alterColumn } from '../helpers/alter-column.js';
import { insertOrder } from '../helpers/builders.js';
import { startTestService, useTestService } from '../helpers/test-service.js';

// Every list reads the table, because memory holds none.
const context = useTestService({ environment: { LIST_CACHE_MB: '0' } });
const list = (headers?: Record<string, string>): Promise<Response> =>
  listOrders(context.service.baseUrl, context.key, headers);

beforeEach(async () => {
  await context.service.db.query('TRUNCATE orders');
  await insertOrder(context.service.db, { id: '1' });
  await insertOrder(context.service.db, { id: '2' });
  // The triggers are checked with the first list after a change of the table, which waits for locks.
  await list();
});

/** Runs statements in a transaction that commits once the requests wait for its lock. */
async function whileLocked<T>(statements: string, requests: () => Promise<T>, waiting: number): Promise<T> {
  const endTransaction = await openTransaction(context.service.db, statements);
  const responses = requests();
  await untilLockWaits(context.service.db, waiting, 'petstore-list');
  await endTransaction('COMMIT');
  return responses;
}

describe('a list that waits for a transaction that rewrites the table', () => {
  const NEW_ROWS = 'INSERT INTO orders (id, pet_id, quantity) VALUES (1, 7, 1), (3, 7, 1), (4, 7, 1)';

  it.each([
    ['alters a column', alterColumn('quantity', 'integer USING quantity + 1'), [1, 2]],
    ['truncates and fills the table', `TRUNCATE orders; ${NEW_ROWS}`, [1, 3, 4]],
  ])('returns the committed orders with their own ETag when that transaction %s', async (_what, statements, ids) => {
    const before = (await list()).headers.get('etag') ?? '';
    const conditional = { 'If-None-Match': `${before}, "other"` };
    const responses = await whileLocked(
      statements,
      async () => {
        const waiting = list();
        // While nothing is committed the list is unchanged; this request does not wait.
        const poll = await list(conditional);
        expect([poll.status, poll.headers.get('etag')]).toEqual([304, before]);
        return Promise.all([waiting, list({ 'If-None-Match': '"other"' })]);
      },
      2,
    );
    for (const response of responses) {
      expect(response.status).toBe(200);
      const orders = (await response.json()) as { id: number }[];
      expect(orders.map(({ id }) => id)).toEqual(ids);
      expect(response.headers.get('etag')).not.toBe(before);
    }
    const after = responses[0].headers.get('etag') ?? '';
    expect((await list({ 'If-None-Match': after })).status).toBe(304);
    expect((await list({ 'If-None-Match': before })).status).toBe(200);
  });
});

describe('lists while the table stays locked', () => {
  it('are served from memory while nothing is committed', async () => {
    const cached = await startTestService({ database: context.service });
    const before = await (await listOrders(cached.baseUrl, context.key)).text();
    const lock = 'LOCK TABLE orders IN ACCESS EXCLUSIVE MODE; UPDATE orders SET pet_id = pet_id + 1';
    const unlock = await openTransaction(context.service.db, lock);
    try {
      const response = await listOrders(cached.baseUrl, context.key);
      expect([response.status, await response.text()]).toEqual([200, before]);
    } finally {
      await unlock();
      await cached.stop();
    }
  });

  it.each([
    ['as streams', '0', 2],
    ['from memory, over one connection', '64', 1],
  ])('return 503 %s (LIST_CACHE_MB=%s) and leave no waiting backend behind', async (_how, cacheMb, connections) => {
    const { db } = context.service;
    const service = await startTestService({ database: context.service, environment: { LIST_CACHE_MB: cacheMb } });
    const statuses = async (): Promise<number[]> => {
      const lists = [listOrders(service.baseUrl, context.key), listOrders(service.baseUrl, context.key)];
      return (await Promise.all(lists)).map(({ status }) => status);
    };
    try {
      expect(await statuses()).toEqual([200, 200]);
      await insertOrder(db, { id: '3' });
      const unlock = await lockTable(db, 'orders');
      const rejected = statuses();
      // Not for all: the first may have got its 503 before the last waits.
      await untilLockWaits(db, 1, 'petstore-list');
      expect(await lockWaits(db, 'petstore-list')).toBeLessThanOrEqual(connections);
      expect(await rejected).toEqual([503, 503]);
      expect(await lockWaits(db, 'petstore-list')).toBe(0);
      await unlock();
      expect(await statuses()).toEqual([200, 200]);
    } finally {
      await service.stop();
    }
  });
});
