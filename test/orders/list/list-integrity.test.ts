import { problemsOf, SELECT_FACTS } from '../../../src/orders/list/list-integrity.js';
import { ORDER_COLUMNS } from '../../../src/orders/order-columns.js';
import { insertKey } from '../../helpers/builders.js';
import { readList, requestRaw } from '../../helpers/raw-http.js';
import { ServiceMetrics } from '../../helpers/service-metrics.js';
import { TcpProxy } from '../../helpers/tcp-proxy.js';
import { useTestDatabase } from '../../helpers/test-database.js';
import { startTestService, type TestService } from '../../helpers/test-service.js';
import { LIST_AS_JSON } from '../../model/list-writer.js';
import { DISABLE, ENABLE, SAVE_DEFINITIONS, SCHEMA_CHANGES } from '../../model/schema-changer.js';

const database = useTestDatabase();
const context = {} as { service: TestService; key: string };
let proxy: TcpProxy;
beforeAll(async () => {
  await database.db.query(SAVE_DEFINITIONS);
  proxy = await TcpProxy.start(database.url);
  const environment = { DATABASE_URL: proxy.urlFor(database.url) };
  context.service = await startTestService({ database, environment, asOwner: true });
  ({ key: context.key } = await insertKey(database.db));
});
afterAll(async () => {
  await context.service.stop();
  await proxy.close();
});
beforeEach(() => {
  context.service.clock.advance(60_000);
});
beforeEach(() =>
  run(['TRUNCATE orders', 'INSERT INTO orders (id, pet_id, quantity) VALUES (1, 1, 1), (2, 2, 2), (20000, 3, 3)']),
);

const list = (encoding: 'gzip' | 'identity' = 'gzip'): ReturnType<typeof readList> =>
  readList(context.service.baseUrl, context.key, encoding);

async function table(): Promise<string> {
  const { rows } = await context.service.db.query<{ text: string }>(LIST_AS_JSON);
  return `[${rows[0]!.text}]`;
}

/** Runs statements on one connection, each in a transaction of its own. */
async function run(statements: readonly string[]): Promise<void> {
  const client = await context.service.db.connect();
  try {
    for (const statement of statements) {
      await client.query(statement);
    }
  } finally {
    client.release(true);
  }
}

async function isIntact(): Promise<boolean> {
  return (await ServiceMetrics.of(context.service.app)).sum('petstore_list_intact') === 1;
}

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
  await context.service.db.query('UPDATE orders SET pet_id = pet_id + 1 WHERE id > 10000');
  expect(await expectCurrent()).toBeDefined();
}

it('the tables, triggers and functions are those that src/orders/list/list-integrity.ts expects', async () => {
  const { rows } = await context.service.db.query<{ facts: string[] }>(SELECT_FACTS);
  expect(problemsOf(rows[0]!.facts)).toEqual([]);
});

it('returns 500 when JSON cannot express the first order, which another request would not change', async () => {
  await run(['ALTER TABLE orders ALTER quantity DROP NOT NULL', 'UPDATE orders SET quantity = NULL']);
  expect((await requestRaw(context.service.baseUrl, { key: context.key })).status).toBe(500);
  await run(['UPDATE orders SET quantity = 1', 'ALTER TABLE orders ALTER quantity SET NOT NULL']);
});

const CHANGE = 'UPDATE orders SET quantity = 9';

describe('a list', () => {
  it.each<[string, ...string[]]>([
    ['triggers were disabled for one transaction', `BEGIN; ${DISABLE}; ${CHANGE}; ${ENABLE}; COMMIT`],
    [
      'orders were inserted by a replica role',
      'SET session_replication_role = replica',
      'INSERT INTO orders (id, pet_id, quantity) SELECT n, n, 1 FROM generate_series(100, 40000, 300) AS n',
    ],
    ['tokens were deleted after a change', CHANGE, 'DELETE FROM order_list_changes WHERE block = 0'],
    [
      'exactly the tokens of a change were deleted',
      'CREATE TEMPORARY TABLE known AS TABLE order_list_changes',
      CHANGE,
      'DELETE FROM order_list_changes WHERE token NOT IN (SELECT token FROM known)',
    ],
    ['tokens were changed', CHANGE, 'UPDATE order_list_changes SET token = 0 WHERE block IS NOT NULL'],
    ['its schema was renamed and back', 'ALTER SCHEMA public RENAME TO old', 'ALTER SCHEMA old RENAME TO public'],
    ['tokens were restored twice', CHANGE, 'INSERT INTO order_list_changes SELECT * FROM order_list_changes'],
  ])('is current and has a new ETag when %s', async (_what, ...statements) => {
    const before = await expectCurrent();
    await run(statements);
    await expectNewVersion(before);
  });

  it.each(SCHEMA_CHANGES)('is read whole, without ETag, while $what, and has a new one afterwards', async (change) => {
    const before = await expectCurrent();
    await run([change.apply]);
    for (const write of ['UPDATE orders SET quantity = quantity + 1', 'DELETE FROM orders WHERE id = 2']) {
      expect(await expectCurrent()).toBeUndefined();
      expect(await isIntact()).toBe(false);
      await run([write]);
    }
    const conditional = await requestRaw(context.service.baseUrl, {
      key: context.key,
      headers: { 'If-None-Match': `${before}, *` },
    });
    expect([conditional.status, conditional.body.toString()]).toEqual([200, await table()]);
    const head = await requestRaw(context.service.baseUrl, { key: context.key, method: 'HEAD' });
    expect([head.status, head.headers.etag]).toEqual([200, undefined]);
    await run([change.undo]);
    await expectNewVersion(before);
  });

  it.each(ORDER_COLUMNS.filter(({ column }) => column !== 'id'))(
    'is read whole while changes of $column are not noted',
    async ({ column }) => {
      const { db } = context.service;
      const before = await expectCurrent();
      const { rows } = await db.query<{ text: string }>(
        "SELECT pg_get_triggerdef(oid) AS text FROM pg_trigger WHERE tgname = 'orders_note_update'",
      );
      // PostgreSQL casts what is `character varying`.
      const [old, its] = ['old', 'new'].map((row) => `\\(?${row}\\.${column}(\\)::text)?`);
      const others = rows[0]!.text.replace(new RegExp(` OR \\(${old} IS DISTINCT FROM ${its}\\)`), '');
      await run([`DROP TRIGGER orders_note_update ON orders; ${others}; ${ENABLE}`]);
      expect(await expectCurrent()).toBeUndefined();
      await run([`DROP TRIGGER orders_note_update ON orders; ${rows[0]!.text}; ${ENABLE}`]);
      await expectNewVersion(before);
    },
  );

  it('has versions while the trigger compares one more column, as another release may list it', async () => {
    const { db } = context.service;
    await expectCurrent();
    const { rows } = await db.query<{ text: string }>(
      "SELECT pg_get_triggerdef(oid) AS text FROM pg_trigger WHERE tgname = 'orders_note_update'",
    );
    const known = ' OR (old.complete IS DISTINCT FROM new.complete)';
    const more = rows[0]!.text.replace(
      known,
      `${known} OR (old.title IS DISTINCT FROM new.title) OR (old.code IS DISTINCT FROM new.code)`,
    );
    await run([
      'ALTER TABLE orders ADD title text, ADD code varchar(9)',
      `DROP TRIGGER orders_note_update ON orders; ${more}; ${ENABLE}`,
    ]);
    expect(await expectCurrent()).toBeDefined();
    await run([`DROP TRIGGER orders_note_update ON orders; ${rows[0]!.text}; ${ENABLE}`]);
    await run(['ALTER TABLE orders DROP title, DROP code']);
    expect(await expectCurrent()).toBeDefined();
  });

  // PostgreSQL notices with VACUUM that a table has no rules any more.
  it.each([
    ['a trigger that discards tokens', trigger('RETURN NULL'), 'DROP FUNCTION spoil() CASCADE'],
    ['a trigger that changes tokens', trigger('NEW.token := 0; RETURN NEW'), 'DROP FUNCTION spoil() CASCADE'],
    [
      'a rule that discards tokens',
      'CREATE RULE spoil AS ON INSERT TO order_list_changes DO INSTEAD NOTHING',
      'DROP RULE spoil ON order_list_changes; VACUUM order_list_changes',
    ],
  ])('is read whole while the side table has %s, and cannot be changed unnoticed', async (_what, apply, undo) => {
    const { db } = context.service;
    await db.query('UPDATE orders SET quantity = quantity + 1');
    // In one transaction, so that there is something to compact, whatever the service compacts before or meanwhile.
    await run([`INSERT INTO order_list_changes (block, token) SELECT block, 0 FROM order_list_changes; ${apply}`]);
    expect(await expectCurrent()).toBeUndefined();
    for (const write of [
      'UPDATE orders SET quantity = quantity + 1',
      'SELECT renew_order_list_versions()',
      'DELETE FROM order_list_changes',
      'SELECT compact_order_list_changes(0)',
    ]) {
      // The lock waits for a compaction by the service, which holds rows that another one skips.
      const alone = `LOCK TABLE order_list_changes IN SHARE ROW EXCLUSIVE MODE; ${write}`;
      await expect(db.query(alone)).rejects.toThrow(/does not keep|cannot perform INSERT RETURNING/);
    }
    await run(undo.split('; '));
    expect(await expectCurrent()).toBeDefined();
    await db.query('UPDATE orders SET quantity = quantity + 1');
    expect(await expectCurrent()).toBeDefined();
  });
});

function trigger(body: string): string {
  return `CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${body}; END $$;
    CREATE TRIGGER spoil BEFORE INSERT ON order_list_changes FOR EACH ROW EXECUTE FUNCTION spoil()`;
}

it('a list has a version again after a repair, also one that the catalogue of the version does not show', async () => {
  const { rows } = await database.db.query<{ validates: boolean }>(
    "SELECT current_setting('server_version_num')::int >= 180000 AS validates",
  );
  const PRIMARY_KEY = 'ADD CONSTRAINT orders_pkey PRIMARY KEY (id)';
  // Since PostgreSQL 18 there is such a repair.
  const [spoil, repair] = rows[0]!.validates
    ? ['ADD CONSTRAINT has_id NOT NULL id NOT VALID', 'VALIDATE CONSTRAINT has_id']
    : ['ALTER id DROP NOT NULL', PRIMARY_KEY];
  await run(
    ['DROP CONSTRAINT orders_pkey', 'ALTER id DROP IDENTITY IF EXISTS', 'ALTER id DROP NOT NULL', spoil].map(alter),
  );
  expect(await expectCurrent()).toBeUndefined();
  await run([alter(repair)]);
  expect(await expectCurrent()).toBeDefined();
  await run(['DROP CONSTRAINT IF EXISTS has_id', 'DROP CONSTRAINT IF EXISTS orders_pkey', PRIMARY_KEY].map(alter));
});

function alter(change: string): string {
  return `ALTER TABLE orders ${change}`;
}

it('a list is read whole when triggers were disabled as it began, and enabled before they are checked', async () => {
  await expectCurrent();
  await run([DISABLE]);
  const enabled = proxy.before('list_facts', () => run([ENABLE]));
  const { text, etag } = await list();
  await enabled;
  expect([text, etag]).toEqual([await table(), undefined]);
  expect(await expectCurrent()).toBeDefined();
});

/** What a list begins its transaction with, and then reads orders with. */
const [BEGIN, READ] = ['BEGIN ISOLATION', 'COPY ('];

it('a list is read whole when the side table is gone before its transaction begins', async () => {
  const renamed = proxy.before(BEGIN, () => run(['ALTER TABLE order_list_changes RENAME TO elsewhere']));
  const { text, etag } = await list();
  await renamed;
  expect([text, etag]).toEqual([await table(), undefined]);
  await run(['ALTER TABLE elsewhere RENAME TO order_list_changes']);
});

it('a list shows nothing that is committed after its transaction has begun', async () => {
  const expected = await table();
  const changed = proxy.before(READ, () => run(['UPDATE orders SET quantity = quantity + 1']));
  expect((await list()).text).toBe(expected);
  await changed;
  expect(await expectCurrent()).toBeDefined();
});

it('a list shows every change when the side table is emptied between its name and its sums', async () => {
  const empty = 'TRUNCATE order_list_changes';
  await run([empty, 'SELECT renew_order_list_versions()']);
  await list();
  await run(['UPDATE orders SET quantity = quantity + 1 WHERE id = 1']);
  const expected = await table();
  let refusal: unknown;
  const emptied = proxy.before('list_sums', async () => {
    await run(["SET lock_timeout = '100ms'", empty]).catch((error: unknown) => (refusal = error));
  });
  expect((await list()).text).toBe(expected);
  await emptied;
  // The list has locked it.
  expect(refusal).toMatchObject({ code: '55P03' });
  expect(await expectCurrent()).toBeDefined();
});

describe('a child table that is attached while a list is read', () => {
  const ATTACH = 'ALTER TABLE child INHERIT orders';
  beforeEach(() =>
    run([
      'CREATE TABLE child (LIKE orders INCLUDING DEFAULTS INCLUDING CONSTRAINTS)',
      'INSERT INTO child (id, pet_id, quantity) VALUES (7, 7, 7)',
    ]),
  );
  afterEach(() => run(['DROP TABLE child', 'ANALYZE orders', ENABLE]));

  async function expectChildInNextList(): Promise<void> {
    expect(await expectCurrent()).toBeUndefined();
    expect((await list()).text).toContain('"id":7,');
  }

  it('is not in that list', async () => {
    const expected = await table();
    const attached = proxy.before(READ, () => run([ATTACH]));
    const { text, etag } = await list();
    await attached;
    expect(text).toBe(expected);
    expect(etag).toBeDefined();
    await expectChildInNextList();
  });

  async function expectUnavailable(): Promise<void> {
    const { status } = await requestRaw(context.service.baseUrl, { key: context.key });
    expect(status).toBe(503);
  }

  it('makes a list that is read whole unavailable', async () => {
    await run([DISABLE]);
    const attached = proxy.before(READ, () => run([ATTACH]));
    await expectUnavailable();
    await attached;
    await expectChildInNextList();
  });

  it('makes a list that is read whole unavailable when it is rewritten after it was attached', async () => {
    await run([DISABLE]);
    // The list has locked what was attached before.
    const attached = proxy.after(BEGIN, () => run([ATTACH]));
    const rewritten = proxy.before(READ, () => run(['ALTER TABLE child SET UNLOGGED']));
    await expectUnavailable();
    await Promise.all([attached, rewritten]);
  });
});
