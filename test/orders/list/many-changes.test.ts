import { readList } from '../../helpers/raw-http.js';
import { ServiceMetrics } from '../../helpers/service-metrics.js';
import { useTestService } from '../../helpers/test-service.js';
import { waitFor } from '../../helpers/wait-for.js';
import { observe } from '../../model/list-writer.js';

const context = useTestService();
beforeEach(() => context.service.db.query('TRUNCATE orders, order_list_changes; SELECT renew_order_list_versions()'));

interface Tokens {
  readonly rows: number;
  /** Those that concern every block. */
  readonly renewals: number;
  readonly pages: number;
}

async function tokens(): Promise<Tokens> {
  const { rows } = await context.service.db.query<Tokens>(
    `SELECT count(*)::int AS rows, (count(*) - count(block))::int AS renewals,
            (pg_relation_size('order_list_changes') / current_setting('block_size')::int)::int AS pages FROM order_list_changes`,
  );
  return rows[0]!;
}

async function rowsRead(): Promise<number> {
  return (await ServiceMetrics.of(context.service.app)).sum('petstore_list_rows_total');
}

/** Merges as the service does. @returns the rows after each step */
async function merge(pages: number): Promise<number[]> {
  const left: number[] = [];
  for (let page: string | null = '0'; page !== null;) {
    const { rows }: { rows: { page: string | null }[] } = await context.service.db.query(
      'SELECT merge_order_list_changes($1, $2)::text AS page',
      [page, pages],
    );
    page = rows[0]!.page;
    left.push((await tokens()).rows);
  }
  return left;
}

async function list(encoding: 'gzip' | 'identity'): Promise<{ etag: string; ids: string[] }> {
  const { etag, text } = await readList(context.service.baseUrl, context.key, encoding);
  return { etag: String(etag), ids: Array.from(text.matchAll(/\{"id":(-?\d+),/g), ([, id]) => id ?? '') };
}

/** Rows of the versions, as that many changes of so many blocks leave them. */
async function insertTokens(count: number, blocks: number): Promise<void> {
  await context.service.db.query(
    `INSERT INTO order_list_changes (block, token)
     SELECT 7 * (n % $2), hashtextextended(n::text, 0) FROM generate_series(1, $1) AS n`,
    [count, blocks],
  );
}

describe('many rows of the versions', () => {
  it('are merged to one for each block in steps that leave every version as it is, and their pages come back', async () => {
    await insertTokens(50_000, 3);
    const before = await observe(context.service.url);
    expect((await merge(100)).length).toBeGreaterThan(3);
    expect(await tokens()).toMatchObject({ rows: 4, renewals: 1 });
    expect(await observe(context.service.url)).toEqual(before);
    await context.service.db.query('VACUUM order_list_changes');
    expect((await tokens()).pages).toBe(1);
  });

  it('are merged by the function of the migrations beside one for text that another login has made', async () => {
    const { db, baseUrl } = context.service;
    await db.query("CREATE FUNCTION merge_order_list_changes(text, text) RETURNS text LANGUAGE sql AS 'SELECT NULL'");
    await insertTokens(1_000, 3);
    // A list looks at the rows.
    await waitFor(async () => {
      await readList(baseUrl, context.key, 'gzip');
      return (await tokens()).rows < 1_000;
    }, 'the rows are merged');
    expect(await tokens()).toMatchObject({ rows: 4, renewals: 1 });
    await db.query('DROP FUNCTION merge_order_list_changes(text, text)');
  });

  it('of many blocks are merged into the one without a block, wherever that is, which leaves the name as it is', async () => {
    // The row without a block is not the first.
    await context.service.db.query('TRUNCATE order_list_changes');
    await insertTokens(30_000, 30_000);
    await context.service.db.query('SELECT renew_order_list_versions()');
    const { name } = await observe(context.service.url);
    await merge(1_000);
    expect(await tokens()).toMatchObject({ rows: 1, renewals: 1 });
    expect((await observe(context.service.url)).name).toBe(name);
    await context.service.db.query('VACUUM order_list_changes');
    expect((await tokens()).pages).toBe(1);
  });

  it('are left as they are while that makes few of them fewer, or none concerns every block', async () => {
    await insertTokens(16_384, 16_384);
    await insertTokens(200, 200);
    expect((await merge(1_000)).at(-1)).toBe(16_585);
    await context.service.db.query('TRUNCATE order_list_changes');
    await insertTokens(20_000, 2);
    expect(await merge(1_000)).toEqual([20_000]);
  });

  it('are left to another process that merges, and to the primary', async () => {
    const { db } = context.service;
    await insertTokens(1_000, 1);
    const client = await db.connect();
    try {
      await client.query('BEGIN; SELECT pg_advisory_xact_lock(482871112565)');
      expect(await merge(1_000)).toEqual([1_001]);
      await client.query('COMMIT; BEGIN READ ONLY');
      await client.query('SELECT merge_order_list_changes(0, 1000)');
      await client.query('COMMIT');
    } finally {
      client.release();
    }
    expect(await tokens()).toMatchObject({ rows: 1_001 });
    expect((await merge(1_000)).at(-1)).toBe(2);
  });

  it.each([
    ['suppresses an update', 'BEFORE UPDATE', 'RETURN NULL'],
    ['changes an update', 'BEFORE UPDATE', 'NEW.token := 0; RETURN NEW'],
  ])('are not merged while a trigger %s', async (_what, when, body) => {
    const { db } = context.service;
    await insertTokens(1_000, 1);
    await db.query(`CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${body}; END $$;
      CREATE TRIGGER spoil ${when} ON order_list_changes FOR EACH ROW EXECUTE FUNCTION spoil()`);
    try {
      await expect(merge(1_000)).rejects.toThrow('does not keep merged tokens');
      expect(await tokens()).toMatchObject({ rows: 1_001 });
    } finally {
      await db.query('DROP FUNCTION spoil() CASCADE');
    }
  });

  it('are merged by the service after a list, also while all tables are published', async () => {
    await context.service.db.query('INSERT INTO orders (id, pet_id, quantity) VALUES (1, 1, 1)');
    await insertTokens(50_000, 1);
    const { name } = await observe(context.service.url);
    await context.service.db.query('CREATE PUBLICATION everything FOR ALL TABLES');
    expect((await list('gzip')).ids).toEqual(['1']);
    await waitFor(async () => (await tokens()).rows <= 3, 'the changes are merged');
    await context.service.db.query('DROP PUBLICATION everything');
    expect((await observe(context.service.url)).name).toBe(name);
  });
});

it('orders loaded while the triggers were off are listed, and later changes read only the piece that they touch', async () => {
  const { db } = context.service;
  await db.query(`
    ALTER TABLE orders DISABLE TRIGGER ALL;
    INSERT INTO orders (id, pet_id, quantity) SELECT n, n, 1 FROM generate_series(-9, 70000) AS n;
    ALTER TABLE orders ENABLE ALWAYS TRIGGER orders_note_insert;
    ALTER TABLE orders ENABLE ALWAYS TRIGGER orders_note_update;
    ALTER TABLE orders ENABLE ALWAYS TRIGGER orders_note_delete`);
  const loaded = await list('gzip');
  expect(loaded.ids).toHaveLength(70_010);
  expect(await list('identity')).toEqual(loaded);
  const read = await rowsRead();
  await db.query('UPDATE orders SET quantity = quantity + 1 WHERE id = 50000');
  const after = await list('gzip');
  expect(after.ids).toEqual(loaded.ids);
  expect(after.etag).not.toBe(loaded.etag);
  expect((await rowsRead()) - read).toBeLessThanOrEqual(16_384);
});

describe('a list of orders in 40,000 blocks', () => {
  const ORDERS = 40_000;
  const IDS = Array.from({ length: ORDERS }, (_, n) => String((n + 1) * 2 ** 22));

  beforeEach(() =>
    context.service.db.query(
      `INSERT INTO orders (id, pet_id, quantity) SELECT n::bigint << 22, 1, 1 FROM generate_series(1, ${ORDERS}) AS n`,
    ),
  );

  it('keeps ETag and memory when versions are merged, is complete and current, and read in parts after a change', async () => {
    const { db } = context.service;
    const plain = await list('identity');
    expect(plain.ids).toEqual(IDS);
    await waitFor(async () => (await tokens()).rows === 1, 'the versions are merged');
    const read = await rowsRead();
    expect(await list('gzip')).toEqual(plain);
    expect(await rowsRead()).toBe(read);
    // Once, all pieces are compared anew.
    await db.query('UPDATE orders SET quantity = 2 WHERE id = 4194304');
    await list('gzip');
    const before = await rowsRead();
    for (const id of [1, 2 ** 30 + 1, 2 ** 40]) {
      await db.query('INSERT INTO orders (id, pet_id, quantity) VALUES ($1, 1, 1)', [id]);
      const { ids } = await list('gzip');
      expect(ids).toContain(String(id));
    }
    expect((await rowsRead()) - before).toBeLessThanOrEqual((3 * ORDERS) / 7);
    expect((await list('identity')).ids).toHaveLength(ORDERS + 3);
  });
});
