import { ORDER_COLUMNS } from '../../src/orders/order-columns.js';
import { alterColumn } from '../helpers/alter-column.js';
import { call, listOrders } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { openTransaction, untilLockWaits } from '../helpers/lock-waits.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { TcpProxy } from '../helpers/tcp-proxy.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { readList } from '../helpers/wire.js';
import { connectWriter, LIST_AS_JSON, MERGE, MERGE_ALL, observe } from '../models/list-writer.js';
import { ENABLE, LOADS, SAVE_TRIGGERS, SCHEMA_CHANGES } from '../models/schema-changer.js';

const database = useTestDatabase();
const logged: string[] = [];
let proxy: TcpProxy;
let service: TestService;
/** It keeps no list in memory. */
let streaming: TestService;
let key: string;

beforeAll(async () => {
  await database.db.query(SAVE_TRIGGERS);
  // It interrupts only what reads a snapshot.
  proxy = await TcpProxy.start(database.url, 'petstore-list');
  const log = (message: string, fields: unknown): unknown =>
    logged.push(typeof fields === 'string' ? message : `${message} ${JSON.stringify(fields)}`);
  // Both, because Nest has one logger.
  const options = { database, asOwner: true, logger: { log, warn: log, error: log } } as const;
  service = await startTestService({ ...options, environment: { DATABASE_URL: proxy.urlFor(database.url) } });
  streaming = await startTestService({ ...options, environment: { LIST_CACHE_MB: '0' } });
  ({ key } = await insertKey(database.db));
});
afterAll(async () => {
  await streaming.stop();
  await service.stop();
  await proxy.close();
});
beforeEach(async () => {
  service.clock.advance(60_000);
  await run('TRUNCATE orders; INSERT INTO orders (id, pet_id, quantity) VALUES (1, 1, 1), (2, 2, 2), (20000, 3, 3)');
  logged.length = 0;
});

const list = (encoding?: 'gzip' | 'identity'): ReturnType<typeof readList> => readList(service.port, key, encoding);

async function table(): Promise<string> {
  const { rows } = await database.db.query<{ text: string }>(LIST_AS_JSON);
  return `[${rows[0]!.text}]`;
}

/** Runs statements, those without COMMIT in one transaction. */
async function run(statements: string): Promise<void> {
  await database.db.query(statements);
}

async function isIntact(): Promise<boolean> {
  return (await ServiceMetrics.of(service.app)).sum('petstore_list_intact') === 1;
}

/** @returns the ETag */
async function expectCurrent(): Promise<string | undefined> {
  const expected = await table();
  const [compressed, plain] = [await list('gzip'), await list('identity')];
  expect([compressed.text, plain.text]).toEqual([expected, expected]);
  expect(plain.etag).toBe(compressed.etag);
  return compressed.etag;
}

/** Checks that the list has another version than before, and that what has changed unnoticed stays out of a later one. */
async function expectNewVersion(before: string | undefined): Promise<void> {
  const after = await expectCurrent();
  expect([before === undefined, after === undefined, after === before]).toEqual([false, false, false]);
  expect(await isIntact()).toBe(true);
  await run('UPDATE orders SET pet_id = pet_id + 1 WHERE id > 10000');
  expect(await expectCurrent()).toBeDefined();
}

describe('the list stays the same, and so does its ETag', () => {
  it.each([
    ['an order is cancelled', "UPDATE orders SET status = 'cancelled', cancelled_at = now() WHERE id = 1"],
    ['an update sets the same values', 'UPDATE orders SET pet_id = pet_id, quantity = quantity WHERE id = 1'],
    ['a change is rolled back', 'BEGIN; UPDATE orders SET pet_id = pet_id + 1 WHERE id = 1; ROLLBACK'],
    ['the rows of the versions are merged', MERGE],
    ['the rows of the versions are merged into the one without a block', MERGE_ALL],
    ['release 1.0.0 compacts the changes', 'SELECT compact_order_list_changes(0)'],
    ['release 1.0.0 notes blocks', 'SELECT note_order_list_blocks(-9223372036854775808, 9223372036854775807)'],
    ['the catalogue is vacuumed', 'VACUUM FREEZE pg_class'],
  ])('%s', async (_what, statements) => {
    const before = await list();
    expect(before.etag).toBeDefined();
    await run(statements);
    expect(await list()).toEqual(before);
  });
});

describe('the list is current, and has a new ETag', () => {
  it.each<readonly [what: string, statements: string]>([
    ['an order is inserted', 'INSERT INTO orders (id, pet_id, quantity) VALUES (50, 1, 1)'],
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
      'an order changes in the transaction in which an update of its block failed',
      `DO $$ BEGIN
         BEGIN UPDATE orders SET quantity = 2 - id WHERE id IN (1, 2); EXCEPTION WHEN check_violation THEN NULL; END;
         UPDATE orders SET pet_id = 8 WHERE id = 1; END $$`,
    ],
    ['the versions are renewed', 'SELECT renew_order_list_versions()'],
    ...LOADS,
    ['tokens were deleted', 'UPDATE orders SET quantity = 9; DELETE FROM order_list_changes WHERE block = 0'],
    ['the table was renamed and back', 'ALTER TABLE orders RENAME TO old; ALTER TABLE old RENAME TO orders'],
  ])('%s', async (_what, statements) => {
    const before = await expectCurrent();
    await run(statements);
    await expectNewVersion(before);
  });

  it('two transactions change orders of one block, and neither waits for the other', async () => {
    const [one, other] = [await connectWriter(database.url), await connectWriter(database.url)];
    try {
      const change = (id: number): string =>
        `BEGIN; UPDATE orders SET pet_id = 5 WHERE id = ${id}; INSERT INTO orders (id, pet_id, quantity) VALUES (${id + 2}, 3, 3)`;
      await one.query(change(1));
      await other.query(change(2));
      await run(MERGE);
      await other.query('COMMIT');
      const between = await expectCurrent();
      await one.query('COMMIT');
      await expectNewVersion(between);
    } finally {
      await Promise.all([one.end(), other.end()]);
    }
  });

  it.each([
    [
      'a transaction changes two blocks for which it uses the same setting',
      'BEGIN; UPDATE orders SET pet_id = 5 WHERE id = 1; UPDATE orders SET pet_id = 6 WHERE id = 16777217; COMMIT',
      /"id":(?:1|16777217),/,
    ],
    [
      'an order moves to an id of another block',
      'UPDATE orders SET id = 16777218 WHERE id = 1',
      /"id":(?:2|16777218),/,
    ],
  ])('%s: both are read again', async (_what, statements, inBoth) => {
    // Blocks 0 and 1,024.
    await run('INSERT INTO orders (id, pet_id, quantity) VALUES (16777217, 2, 2)');
    const before = await observe(database.url);
    await run(statements);
    const after = await observe(database.url);
    const changed = [...after.pieces].filter(([, text]) => inBoth.test(text));
    expect(changed.map(([piece]) => before.pieces.has(piece))).toEqual([false, false]);
  });

  it.each([
    ['alters a column', alterColumn('quantity', 'integer USING quantity + 1'), [1, 2, 20000]],
    [
      'truncates and fills the table',
      'TRUNCATE orders; INSERT INTO orders (id, pet_id, quantity) VALUES (1, 7, 1), (4, 7, 1)',
      [1, 4],
    ],
  ])('lists wait for a transaction that %s, and it commits', async (_what, statements, ids) => {
    // Every list reads the table.
    const listed = (tags: string): Promise<Response> => listOrders(streaming.baseUrl, key, { 'If-None-Match': tags });
    const before = (await list()).etag ?? '';
    const commit = await openTransaction(database.db, statements);
    // While nothing is committed the list is unchanged; this request does not wait.
    expect((await listed(before)).status).toBe(304);
    const waiting = [listed('"none"'), listed('"other"')];
    await untilLockWaits(database.db, 2, 'petstore-list');
    await commit('COMMIT');
    for (const response of await Promise.all(waiting)) {
      const orders = (await response.json()) as { id: number }[];
      expect(orders.map(({ id }) => id)).toEqual(ids);
      expect(response.headers.get('etag')).not.toBe(before);
    }
    expect((await listed(before)).status).toBe(200);
  });
});

describe('the list is read whole, without ETag', () => {
  it.each(SCHEMA_CHANGES)('while $what, and has a new one afterwards', async (change) => {
    const before = await expectCurrent();
    await run(change.apply);
    for (const write of ['UPDATE orders SET quantity = quantity + 1', 'DELETE FROM orders WHERE id = 2']) {
      expect(await expectCurrent()).toBeUndefined();
      expect(await isIntact()).toBe(false);
      await run(write);
    }
    const conditional = await listOrders(service.baseUrl, key, { 'If-None-Match': `${before}, *` });
    expect([conditional.status, await conditional.text()]).toEqual([200, await table()]);
    const head = await call(service.baseUrl, 'HEAD', '/store/orders', key);
    expect([head.status, head.headers.get('etag')]).toEqual([200, null]);
    await run(change.undo);
    await expectNewVersion(before);
    // Each change once, however many lists there were.
    expect(logged).toEqual([
      expect.stringMatching(/^reading every list as a whole: /),
      'serving the list from versions again',
    ]);
  });

  it('while another column has the name of one that the trigger compares', async () => {
    await run('ALTER TABLE orders ADD COLUMN amount integer NOT NULL DEFAULT 5');
    const before = await expectCurrent();
    await run('ALTER TABLE orders RENAME quantity TO old; ALTER TABLE orders RENAME amount TO quantity');
    expect(await expectCurrent()).toBeUndefined();
    await run('ALTER TABLE orders DROP COLUMN quantity; ALTER TABLE orders RENAME old TO quantity');
    await expectNewVersion(before);
  });

  it.each(ORDER_COLUMNS.filter(({ column }) => column !== 'id'))(
    'while the trigger does not compare $column, which the log names',
    async ({ column }) => {
      const before = await expectCurrent();
      const { rows } = await database.db.query<{ text: string }>(
        "SELECT pg_get_triggerdef(oid) AS text FROM pg_trigger WHERE tgname = 'orders_note_update'",
      );
      const { text } = rows[0]!;
      // PostgreSQL casts what is `character varying`.
      const [old, its] = ['old', 'new'].map((row) => `\\(?${row}\\.${column}(\\)::text)?`);
      const others = text.replace(new RegExp(` OR \\(${old} IS DISTINCT FROM ${its}\\)`), '');
      await run(`DROP TRIGGER orders_note_update ON orders; ${others}; ${ENABLE}`);
      expect(await expectCurrent()).toBeUndefined();
      expect(logged).toEqual([
        `reading every list as a whole: the trigger orders_note_update does not compare the column ${column}`,
      ]);
      await run(`DROP TRIGGER orders_note_update ON orders; ${text}; ${ENABLE}`);
      await expectNewVersion(before);
    },
  );
});

it('orders change after the snapshot of a list: it does not show that', async () => {
  const expected = await table();
  const changed = proxy.after('list_name', () => run('UPDATE orders SET quantity = quantity + 1'));
  expect((await list()).text).toBe(expected);
  await changed;
  expect(await expectCurrent()).toBeDefined();
});

describe('the versions of the list', () => {
  // No other service merges there.
  const database = useTestDatabase();

  /** The rows of the versions, and those of them that concern every block. */
  async function tokens(): Promise<{ rows: number; renewals: number }> {
    const { rows } = await database.db.query<{ rows: number; renewals: number }>(
      'SELECT count(*)::int AS rows, (count(*) - count(block))::int AS renewals FROM order_list_changes',
    );
    return rows[0]!;
  }

  /** As that many changes of so many blocks leave them. */
  async function insertTokens(count: number, blocks: number): Promise<void> {
    await database.db.query(
      `INSERT INTO order_list_changes (block, token)
       SELECT 7 * (n % $2), hashtextextended(n::text, 0) FROM generate_series(1, $1) AS n`,
      [count, blocks],
    );
  }

  it('stay the same when a service merges the rows of many changes of few blocks', async () => {
    // Of the first two of the blocks.
    await database.db.query('INSERT INTO orders (id, pet_id, quantity) VALUES (1, 1, 1), (114688, 2, 2)');
    await insertTokens(50_000, 3);
    const before = await observe(database.url);
    const service = await startTestService({ database });
    await waitFor(async () => (await tokens()).rows <= 4, 'the rows are merged');
    await service.stop();
    expect(await observe(database.url)).toEqual(before);
  });

  it('keep the ETag when changes of many blocks are merged into the row without a block', async () => {
    // That row is not the first.
    await database.db.query('TRUNCATE order_list_changes');
    await insertTokens(30_000, 30_000);
    await database.db.query('SELECT renew_order_list_versions()');
    const { etag } = await observe(database.url);
    await database.db.query('SELECT merge_order_list_changes(0, 1000)');
    expect(await tokens()).toEqual({ rows: 1, renewals: 1 });
    expect((await observe(database.url)).etag).toBe(etag);
  });
});
