import { ORDER_COLUMNS } from '../../../src/orders/order-columns.js';
import { insertKey } from '../../helpers/builders.js';
import { readList, requestRaw } from '../../helpers/raw-http.js';
import { ServiceMetrics } from '../../helpers/service-metrics.js';
import { TcpProxy } from '../../helpers/tcp-proxy.js';
import { useTestDatabase } from '../../helpers/test-database.js';
import { startTestService, type TestService } from '../../helpers/test-service.js';
import { LIST_AS_JSON } from '../../model/list-writer.js';
import { ENABLE, LOADS, SAVE_TRIGGERS, SCHEMA_CHANGES } from '../../model/schema-changer.js';

const database = useTestDatabase();
const context = {} as { service: TestService; key: string };
const logged: string[] = [];
let proxy: TcpProxy;
beforeAll(async () => {
  await database.db.query(SAVE_TRIGGERS);
  proxy = await TcpProxy.start(database.url);
  const environment = { DATABASE_URL: proxy.urlFor(database.url) };
  const log = (message: string, fields: unknown): unknown =>
    logged.push(typeof fields === 'string' ? message : `${message} ${JSON.stringify(fields)}`);
  const logger = { log, warn: log, error: log };
  context.service = await startTestService({ database, environment, asOwner: true, logger });
  ({ key: context.key } = await insertKey(database.db));
});
afterAll(async () => {
  await context.service.stop();
  await proxy.close();
});
beforeEach(async () => {
  context.service.clock.advance(60_000);
  await run('TRUNCATE orders; INSERT INTO orders (id, pet_id, quantity) VALUES (1, 1, 1), (2, 2, 2), (20000, 3, 3)');
  logged.length = 0;
});

const list = (encoding: 'gzip' | 'identity' = 'gzip'): ReturnType<typeof readList> =>
  readList(context.service.baseUrl, context.key, encoding);

async function table(): Promise<string> {
  const { rows } = await database.db.query<{ text: string }>(LIST_AS_JSON);
  return `[${rows[0]!.text}]`;
}

/** Runs statements in one transaction. */
async function run(statements: string): Promise<void> {
  await database.db.query(statements);
}

async function isIntact(): Promise<boolean> {
  return (await ServiceMetrics.of(context.service.app)).sum('petstore_list_intact') === 1;
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

const CHANGE = 'UPDATE orders SET quantity = 9';

describe('a list', () => {
  it.each<readonly [what: string, statements: string]>([
    ...LOADS,
    ['the tokens of a block were deleted', `${CHANGE}; DELETE FROM order_list_changes WHERE block = 0`],
    [
      'exactly the tokens of a change were deleted',
      `CREATE TEMPORARY TABLE known ON COMMIT DROP AS TABLE order_list_changes; ${CHANGE};
       DELETE FROM order_list_changes WHERE token NOT IN (SELECT token FROM known)`,
    ],
    ['tokens were changed', `${CHANGE}; UPDATE order_list_changes SET token = 0 WHERE block IS NOT NULL`],
    ['tokens were restored twice', `${CHANGE}; INSERT INTO order_list_changes TABLE order_list_changes`],
    ['the table was renamed and back', 'ALTER TABLE orders RENAME TO old; ALTER TABLE old RENAME TO orders'],
    ['the schema was renamed and back', 'ALTER SCHEMA public RENAME TO old; ALTER SCHEMA old RENAME TO public'],
  ])('is current and has a new ETag when %s', async (_what, statements) => {
    const before = await expectCurrent();
    await run(statements);
    await expectNewVersion(before);
  });

  it.each(SCHEMA_CHANGES)('is read whole, without ETag, while $what, and has a new one afterwards', async (change) => {
    const before = await expectCurrent();
    await run(change.apply);
    for (const write of ['UPDATE orders SET quantity = quantity + 1', 'DELETE FROM orders WHERE id = 2']) {
      expect(await expectCurrent()).toBeUndefined();
      expect(await isIntact()).toBe(false);
      await run(write);
    }
    const conditional = await requestRaw(context.service.baseUrl, {
      key: context.key,
      headers: { 'If-None-Match': `${before}, *` },
    });
    expect([conditional.status, conditional.body.toString()]).toEqual([200, await table()]);
    const head = await requestRaw(context.service.baseUrl, { key: context.key, method: 'HEAD' });
    expect([head.status, head.headers.etag]).toEqual([200, undefined]);
    await run(change.undo);
    await expectNewVersion(before);
    // Each change once, however many lists there were.
    expect(logged).toEqual([
      expect.stringMatching(/^reading every list as a whole: /),
      'serving the list from versions again',
    ]);
  });

  it.each(ORDER_COLUMNS.filter(({ column }) => column !== 'id'))(
    'is read whole while the trigger does not compare $column, which the log names',
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

  it('shows nothing that is committed after its snapshot', async () => {
    const expected = await table();
    const changed = proxy.before('COPY (', () => run('UPDATE orders SET quantity = quantity + 1'));
    expect((await list()).text).toBe(expected);
    await changed;
    expect(await expectCurrent()).toBeDefined();
  });

  it('is a 500 while JSON cannot express an order, which the log names', async () => {
    await run('ALTER TABLE orders ALTER quantity DROP NOT NULL; UPDATE orders SET quantity = NULL WHERE id = 2');
    expect((await requestRaw(context.service.baseUrl, { key: context.key })).status).toBe(500);
    expect(logged.join('\n')).toContain('The order 2 cannot be listed');
    await run('UPDATE orders SET quantity = 1 WHERE id = 2; ALTER TABLE orders ALTER quantity SET NOT NULL');
    expect(await expectCurrent()).toBeDefined();
  });
});
