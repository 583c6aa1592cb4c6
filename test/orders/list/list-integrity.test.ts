import type pg from 'pg';
import { Pools } from '../../../src/database/pools.js';
import { Metrics } from '../../../src/metrics/metrics.js';
import { ListTransactions } from '../../../src/orders/list/list-transaction.js';
import { insertKey } from '../../helpers/builders.js';
import { readList, requestRaw } from '../../helpers/raw-http.js';
import { createTestDatabase, type TestDatabase } from '../../helpers/test-database.js';
import { startTestService, type TestService } from '../../helpers/test-service.js';
import { LIST_AS_JSON } from '../../model/list-writer.js';
import { DISABLE, ENABLE, NOTHING_FUNCTION, PARTITION, SWAP } from '../../model/schema-changer.js';

const ORDERS = 'INSERT INTO orders (id, pet_id, quantity) VALUES (1, 1, 1), (2, 2, 2), (20000, 3, 3)';
const LOADED =
  'INSERT INTO orders (id, pet_id, quantity) SELECT n, n, 1 FROM generate_series(100, 40000, 300) AS n ON CONFLICT DO NOTHING';

let database: TestDatabase;
let service: TestService;
let key: string;

beforeEach(async () => {
  database = await createTestDatabase();
  ({ key } = await insertKey(database.db));
  service = await startTestService({ database });
  await database.db.query(ORDERS);
});
afterEach(async () => {
  await service.stop();
  await database.drop();
});

const list = (encoding: 'gzip' | 'identity' = 'gzip', from: TestService = service): ReturnType<typeof readList> =>
  readList(from.baseUrl, key, encoding);

async function table(): Promise<string> {
  const { rows } = await database.db.query<{ text: string }>(LIST_AS_JSON);
  return `[${rows[0]!.text}]`;
}

/** Runs statements on one connection, each in a transaction of its own. */
async function run(statements: readonly string[]): Promise<void> {
  const client = await database.db.connect();
  try {
    for (const statement of statements) {
      await client.query(statement);
    }
  } finally {
    client.release(true);
  }
}

async function isIntact(): Promise<boolean> {
  const { values } = await service.app.get(Metrics).registry.getSingleMetric('petstore_list_intact')!.get();
  return values[0]!.value === 1;
}

async function expectCurrent(): Promise<string | undefined> {
  const expected = await table();
  const [compressed, plain] = [await list('gzip'), await list('identity')];
  expect([compressed.text, plain.text]).toEqual([expected, expected]);
  expect(plain.etag).toBe(compressed.etag);
  return compressed.etag;
}

describe('a list', () => {
  it.each<[string, ...string[]]>([
    [
      'orders were loaded while the triggers were disabled, as by pg_restore --disable-triggers',
      DISABLE,
      LOADED,
      ENABLE,
    ],
    [
      'orders changed while one trigger was disabled',
      'ALTER TABLE orders DISABLE TRIGGER orders_note_update',
      'UPDATE orders SET quantity = 9',
      ENABLE,
    ],
    [
      'triggers were disabled for one transaction',
      `BEGIN; ${DISABLE}; UPDATE orders SET quantity = 9; ${ENABLE}; COMMIT`,
    ],
    ['orders were loaded by a replica role', 'SET session_replication_role = replica', LOADED],
    [
      'orders changed while the function did nothing',
      "CREATE TABLE saved AS SELECT pg_get_functiondef('note_order_list_change'::regproc) AS text",
      NOTHING_FUNCTION,
      'UPDATE orders SET quantity = 9',
      'DO $do$ BEGIN EXECUTE (SELECT text FROM saved); END $do$',
    ],
    [
      'orders changed while a trigger was missing',
      `CREATE TABLE saved AS SELECT pg_get_triggerdef(oid) AS text FROM pg_trigger WHERE tgname = 'orders_note_update'`,
      'DROP TRIGGER orders_note_update ON orders',
      'UPDATE orders SET quantity = 9',
      `DO $do$ BEGIN EXECUTE (SELECT text FROM saved); END $do$; ${ENABLE}`,
    ],
    [
      'tokens were deleted by hand after a change',
      'UPDATE orders SET quantity = 9',
      'DELETE FROM order_list_changes WHERE block = 0',
    ],
    [
      'tokens were changed by hand after a change',
      'UPDATE orders SET quantity = 9',
      'UPDATE order_list_changes SET token = 0 WHERE block IS NOT NULL',
    ],
    [
      'tokens were restored twice after a change',
      'UPDATE orders SET quantity = 9',
      'INSERT INTO order_list_changes SELECT * FROM order_list_changes',
    ],
    ['the versions were renewed', 'SELECT renew_order_list_versions()'],
    ['the orders were truncated', 'TRUNCATE orders'],
    ['the orders were truncated and loaded', `BEGIN; TRUNCATE orders; ${LOADED}; COMMIT`],
    ['the table was rewritten', 'ALTER TABLE orders ALTER COLUMN created_at TYPE timestamptz(6)'],
    [
      'a child table came and went',
      'CREATE TABLE child () INHERITS (orders)',
      'INSERT INTO child (id, pet_id, quantity) VALUES (7, 7, 7)',
      'DROP TABLE child',
      'ANALYZE orders',
    ],
    ['an id changed', 'UPDATE orders SET id = 70000 WHERE id = 1'],
  ])('is current and has a new ETag when %s', async (_what, ...statements) => {
    const before = await expectCurrent();
    expect(before).toBeDefined();
    await run(statements);
    const after = await expectCurrent();
    expect(after).toBeDefined();
    expect(after).not.toBe(before);
    expect(await isIntact()).toBe(true);
    // What has changed unnoticed must not be served with a later version either.
    await database.db.query('UPDATE orders SET pet_id = pet_id + 1 WHERE id > 10000');
    expect(await expectCurrent()).toBeDefined();
  });

  it.each<[string, ...string[]]>([
    ['the triggers are disabled', DISABLE],
    ['the triggers do not fire for replication', DISABLE, 'ALTER TABLE orders ENABLE TRIGGER ALL'],
    ['a trigger is missing', 'DROP TRIGGER orders_note_delete ON orders'],
    [
      'a trigger has another condition',
      `CREATE OR REPLACE TRIGGER orders_note_update AFTER UPDATE ON orders FOR EACH ROW WHEN (OLD.id <> NEW.id)
         EXECUTE FUNCTION note_order_list_change(); ${ENABLE}`,
    ],
    ['the function does nothing', NOTHING_FUNCTION],
    [
      'two columns have swapped their names',
      'ALTER TABLE orders ADD COLUMN amount integer NOT NULL DEFAULT 5',
      'ALTER TABLE orders RENAME COLUMN quantity TO old',
      'ALTER TABLE orders RENAME COLUMN amount TO quantity',
    ],
    ['the table was swapped', SWAP],
    [
      'the table has a child',
      'CREATE TABLE child () INHERITS (orders)',
      'INSERT INTO child (id, pet_id, quantity) VALUES (7, 7, 7)',
    ],
    ['the table is partitioned', PARTITION],
    [
      'the table is a view',
      'ALTER TABLE orders RENAME TO orders_table',
      'CREATE VIEW orders AS SELECT * FROM orders_table',
    ],
    ['the table has row-level security', 'ALTER TABLE orders ENABLE ROW LEVEL SECURITY'],
    ['the table is unlogged', 'ALTER TABLE orders SET UNLOGGED'],
    ['the tokens are unlogged', 'ALTER TABLE order_list_changes SET UNLOGGED'],
    ['the tokens have been truncated', 'TRUNCATE order_list_changes'],
    [
      'all tokens have been deleted without the trigger',
      'ALTER TABLE order_list_changes DISABLE TRIGGER ALL',
      'DELETE FROM order_list_changes',
      'ALTER TABLE order_list_changes ENABLE ALWAYS TRIGGER order_list_changes_renew',
    ],
    ['a rule discards tokens', 'CREATE RULE discard AS ON INSERT TO order_list_changes DO INSTEAD NOTHING'],
    [
      'a trigger discards tokens',
      'CREATE FUNCTION discard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$',
      'CREATE TRIGGER discard BEFORE INSERT ON order_list_changes FOR EACH ROW EXECUTE FUNCTION discard()',
    ],
    ['the table of the tokens is missing', DISABLE, 'DROP TABLE order_list_changes'],
    ['the tokens have another type', 'ALTER TABLE order_list_changes ALTER COLUMN token TYPE text'],
    [
      'an order may lack an id',
      'ALTER TABLE orders DROP CONSTRAINT orders_pkey',
      'ALTER TABLE orders ALTER COLUMN id DROP IDENTITY',
      'ALTER TABLE orders ALTER COLUMN id DROP NOT NULL',
    ],
  ])('is read whole, without ETag, while %s', async (_what, ...statements) => {
    const before = await expectCurrent();
    await run(statements);
    for (const change of ['UPDATE orders SET quantity = quantity + 1', 'DELETE FROM orders WHERE id = 2']) {
      expect(await expectCurrent()).toBeUndefined();
      expect(await isIntact()).toBe(false);
      await database.db.query(change);
    }
    const conditional = await requestRaw(service.baseUrl, { key, headers: { 'If-None-Match': `${before}, *` } });
    expect([conditional.status, conditional.body.toString()]).toEqual([200, await table()]);
    const head = await requestRaw(service.baseUrl, { key, method: 'HEAD' });
    expect([head.status, head.headers.etag]).toEqual([200, undefined]);
  });
});

it('a list is read whole when triggers were disabled as it began, and enabled before they are checked', async () => {
  await expectCurrent();
  await run([DISABLE]);
  const { main } = service.app.get(Pools);
  const query = main.query.bind(main) as (statement: { name?: string }) => Promise<pg.QueryResult>;
  const checking = jest.spyOn(main, 'query').mockImplementation((async (statement: { name?: string }) => {
    if (statement.name === 'list_facts') {
      checking.mockRestore();
      await run([ENABLE]);
    }
    return query(statement);
  }) as unknown as () => void);
  const { text, etag } = await list();
  expect([text, etag]).toEqual([await table(), undefined]);
  expect(await expectCurrent()).toBeDefined();
});

/** Runs a statement once the list has found its version, before or after it begins its transaction. */
function duringNextList(when: 'before' | 'after', statement: string): void {
  const transactions = service.app.get(ListTransactions);
  const begin = transactions.begin.bind(transactions);
  jest.spyOn(transactions, 'begin').mockImplementationOnce(async (...server) => {
    if (when === 'before') {
      await run([statement]);
    }
    const transaction = await begin(...server);
    if (when === 'after') {
      await run([statement]);
    }
    return transaction;
  });
}

it('a list is read whole when the side table is dropped before its transaction begins', async () => {
  duringNextList('before', 'DROP TABLE order_list_changes');
  const { text, etag } = await list();
  expect([text, etag]).toEqual([await table(), undefined]);
});

describe('a child table that is attached while a list is read', () => {
  const ATTACH = 'ALTER TABLE child INHERIT orders';
  beforeEach(() =>
    run([
      'CREATE TABLE child (LIKE orders INCLUDING DEFAULTS INCLUDING CONSTRAINTS)',
      'INSERT INTO child (id, pet_id, quantity) VALUES (7, 7, 7)',
    ]),
  );

  async function expectChildInNextList(): Promise<void> {
    expect(await expectCurrent()).toBeUndefined();
    expect((await list()).text).toContain('"id":7,');
  }

  it('is not in that list', async () => {
    const expected = await table();
    duringNextList('after', ATTACH);
    const { text, etag } = await list();
    expect(text).toBe(expected);
    expect(etag).toBeDefined();
    await expectChildInNextList();
  });

  it('cuts a list that is read whole', async () => {
    await run([DISABLE]);
    duringNextList('after', ATTACH);
    await expect(list()).rejects.toThrow('socket hang up');
    await expectChildInNextList();
  });
});
