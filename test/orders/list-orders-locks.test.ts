import { lockTable, lockWaits, openTransaction, untilLockWaits } from '../helpers/lock-waits.js';
import { listOrders } from '../helpers/api.js';
import { alterColumn } from '../helpers/alter-column.js';
import { insertOrder } from '../helpers/builders.js';
import { StalledClient } from '../helpers/raw-http.js';
import { startTestService, useTestService } from '../helpers/test-service.js';

// Without a cache every list reads the table.
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

  it('return 503 and leave no waiting backend behind', async () => {
    const unlock = await lockTable(context.service.db, 'orders');
    try {
      const lists = [list(), list()];
      // Not for all: the first may have got its 503 before the last waits.
      await untilLockWaits(context.service.db, 1, 'petstore-list');
      expect((await Promise.all(lists)).map(({ status }) => status)).toEqual([503, 503]);
      expect(await lockWaits(context.service.db, 'petstore-list')).toBe(0);
    } finally {
      await unlock();
    }
    expect((await list()).status).toBe(200);
  });
});

describe('a list that is streamed to a client that does not read', () => {
  it('does not keep VACUUM from returning the pages of merged versions', async () => {
    const { db } = context.service;
    await db.query(`
      INSERT INTO orders (id, pet_id, quantity) SELECT n, 7, 1 FROM generate_series(10, 100000) AS n;
      INSERT INTO order_list_changes (block, token) SELECT 0, n FROM generate_series(1, 50000) AS n;
      SELECT merge_order_list_changes(0, 100000)`);
    const client = await StalledClient.open(context.service.port, context.key);
    try {
      await db.query('VACUUM order_list_changes');
      const { rows } = await db.query<{ size: string }>(`SELECT pg_relation_size('order_list_changes') AS size`);
      expect(Number(rows[0]?.size)).toBeLessThan(100_000);
      expect(client.isComplete).toBe(false);
    } finally {
      client.disconnect();
    }
  });
});
