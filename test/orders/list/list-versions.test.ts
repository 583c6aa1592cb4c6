import { readList } from '../../helpers/raw-http.js';
import { connectWriter, LIST_AS_JSON, MERGE, MERGE_ALL, observe } from '../../model/list-writer.js';
import { useTestService } from '../../helpers/test-service.js';

describe('versions of the order list', () => {
  const context = useTestService();
  const TWO_ORDERS = 'TRUNCATE orders; INSERT INTO orders (id, pet_id, quantity) VALUES (1, 1, 1), (2, 2, 2)';

  const list = (): ReturnType<typeof readList> => readList(context.service.baseUrl, context.key);

  it.each<[string, string]>([
    ['an order is cancelled', "UPDATE orders SET status = 'cancelled', cancelled_at = now() WHERE id = 1"],
    ['an update sets the same values', 'UPDATE orders SET pet_id = pet_id, quantity = quantity WHERE id = 1'],
    ['a statement matches no row', 'UPDATE orders SET pet_id = 1 WHERE id = 404; DELETE FROM orders WHERE id = 404'],
    ['a change is rolled back', 'BEGIN; UPDATE orders SET pet_id = pet_id + 1 WHERE id = 1; ROLLBACK'],
    ['an insert conflicts', 'INSERT INTO orders (id, pet_id, quantity) VALUES (1, 1, 1) ON CONFLICT DO NOTHING'],
    ['the changes are merged', MERGE],
    ['the changes are merged into the row without a block', MERGE_ALL],
    ['release 1.0.0 compacts the changes', 'SELECT compact_order_list_changes(0)'],
    ['release 1.0.0 notes blocks', 'SELECT note_order_list_blocks(-9223372036854775808, 9223372036854775807)'],
    ['the tables are analyzed', 'ANALYZE orders; ANALYZE order_list_changes'],
    ['the catalogue is vacuumed', 'VACUUM FREEZE pg_class'],
    ['another table is written', "UPDATE api_keys SET last_used_at = now(), name = 'renamed'"],
  ])('stay the same when %s', async (_what, statements) => {
    await context.service.db.query(TWO_ORDERS);
    const before = await list();
    expect(before.etag).toBeDefined();
    await context.service.db.query(statements);
    expect(await list()).toEqual(before);
  });

  it.each<[string, string]>([
    ['an order is inserted', 'INSERT INTO orders (id, pet_id, quantity) VALUES (50, 1, 1)'],
    [
      'an order is deleted by a replica role',
      "SET session_replication_role = 'replica'; DELETE FROM orders WHERE id = 1; RESET session_replication_role",
    ],
    ['a pet id changes', 'UPDATE orders SET pet_id = pet_id + 1 WHERE id = 1'],
    ['a quantity changes', 'UPDATE orders SET quantity = quantity + 1 WHERE id = 1'],
    ['a ship date is set', 'UPDATE orders SET ship_date = now() WHERE id = 1'],
    ['an order is completed', "UPDATE orders SET status = 'shipped', complete = true WHERE id = 1"],
    ['an id changes', 'UPDATE orders SET id = 100000 WHERE id = 1'],
    ['an order is deleted', 'DELETE FROM orders WHERE id = 1'],
    [
      'an order changes after the same change was rolled back to a savepoint',
      'BEGIN; SAVEPOINT s; UPDATE orders SET pet_id = 8 WHERE id = 1; ROLLBACK TO s; UPDATE orders SET pet_id = 8 WHERE id = 1; COMMIT',
    ],
    [
      'an order changes again before a savepoint is rolled back',
      'BEGIN; UPDATE orders SET pet_id = 8 WHERE id = 1; SAVEPOINT s; UPDATE orders SET pet_id = 9 WHERE id = 1; ROLLBACK TO s; COMMIT',
    ],
    [
      'an order changes after an update of its block failed',
      `DO $$ BEGIN UPDATE orders SET quantity = 2 - id WHERE id IN (1, 2); EXCEPTION WHEN check_violation THEN NULL; END $$;
       UPDATE orders SET pet_id = 8 WHERE id = 1`,
    ],
    [
      'an order changes in the transaction in which an update of its block failed',
      `DO $$ BEGIN
         BEGIN UPDATE orders SET quantity = 2 - id WHERE id IN (1, 2); EXCEPTION WHEN check_violation THEN NULL; END;
         UPDATE orders SET pet_id = 8 WHERE id = 1;
       END $$`,
    ],
    [
      'an order changes in the transaction after the one that changed it before',
      'UPDATE orders SET pet_id = 8 WHERE id = 1; COMMIT; UPDATE orders SET pet_id = 9 WHERE id = 1',
    ],
    ['the versions are renewed', 'SELECT renew_order_list_versions()'],
    ['the table is truncated', 'TRUNCATE orders'],
  ])('change when %s', async (_what, statements) => {
    await context.service.db.query(TWO_ORDERS);
    const before = await list();
    await context.service.db.query(statements);
    const { rows } = await context.service.db.query<{ text: string }>(LIST_AS_JSON);
    const after = await list();
    expect(after.text).toBe(`[${rows[0]?.text}]`);
    expect([before.etag === undefined, after.etag === undefined, after.etag === before.etag]).toEqual([
      false,
      false,
      false,
    ]);
  });

  it('do not make writers of the same block wait for each other', async () => {
    await context.service.db.query(TWO_ORDERS);
    const [one, other] = [await connectWriter(context.service.url), await connectWriter(context.service.url)];
    try {
      const change = (id: number): string =>
        `BEGIN; UPDATE orders SET pet_id = 5 WHERE id = ${id}; INSERT INTO orders (id, pet_id, quantity) VALUES (${id + 2}, 3, 3)`;
      await one.query(change(1));
      await other.query(change(2));
      await context.service.db.query(MERGE);
      await other.query('COMMIT');
      const between = await observe(context.service.url);
      await one.query('COMMIT');
      const after = await observe(context.service.url);
      expect(after.etag).not.toBe(between.etag);
      expect(JSON.parse(after.text)).toHaveLength(4);
    } finally {
      await Promise.all([one.end(), other.end()]);
    }
  });

  it('change for both of two blocks that share a setting of the transaction', async () => {
    // Blocks 0 and 1,024.
    await context.service.db.query(
      'TRUNCATE orders; INSERT INTO orders (id, pet_id, quantity) VALUES (1, 1, 1), (16777217, 2, 2)',
    );
    const before = await observe(context.service.url);
    await context.service.db.query(
      'BEGIN; UPDATE orders SET pet_id = 5 WHERE id = 1; UPDATE orders SET pet_id = 6 WHERE id = 16777217; COMMIT',
    );
    const after = await observe(context.service.url);
    const changed = [...after.pieces].filter(([, text]) => text.includes('"id":1,') || text.includes('"id":16777217,'));
    expect(changed.map(([key]) => before.pieces.has(key))).toEqual([false, false]);
  });

  it.each(['n', 'random()'])('get one row per block for a bulk update of orders stored by %s', async (order) => {
    const { db } = context.service;
    await db.query(
      `TRUNCATE orders, order_list_changes; SELECT renew_order_list_versions();
       INSERT INTO orders (id, pet_id, quantity) SELECT n, 1, 1 FROM generate_series(0, 49999) AS n ORDER BY ${order}`,
    );
    await db.query('UPDATE orders SET pet_id = 2');
    const { rows } = await db.query('SELECT block::int, count(*)::int FROM order_list_changes GROUP BY 1 ORDER BY 1');
    expect(rows).toEqual([0, 1, 2, 3, null].map((block) => ({ block, count: block === null ? 1 : 2 })));
  });
});
