import type { Pool } from 'pg';
import { readList } from '../../helpers/raw-http.js';
import { ServiceMetrics } from '../../helpers/service-metrics.js';
import { useTestDatabase } from '../../helpers/test-database.js';
import { useTestService } from '../../helpers/test-service.js';
import { waitFor } from '../../helpers/wait-for.js';
import { observe } from '../../model/list-writer.js';

interface Tokens {
  readonly rows: number;
  /** Those that concern every block. */
  readonly renewals: number;
  readonly pages: number;
}

async function tokensIn(db: Pool): Promise<Tokens> {
  const { rows } = await db.query<Tokens>(
    `SELECT count(*)::int AS rows, (count(*) - count(block))::int AS renewals,
            (pg_relation_size('order_list_changes') / current_setting('block_size')::int)::int AS pages FROM order_list_changes`,
  );
  return rows[0]!;
}

/** Rows of the versions, as that many changes of so many blocks leave them. */
async function insertTokens(db: Pool, count: number, blocks: number): Promise<void> {
  await db.query(
    `INSERT INTO order_list_changes (block, token)
     SELECT 7 * (n % $2), hashtextextended(n::text, 0) FROM generate_series(1, $1) AS n`,
    [count, blocks],
  );
}

const RENEW = 'TRUNCATE orders, order_list_changes; SELECT renew_order_list_versions()';

// Without a service, which merges, too.
describe('many rows of the versions', () => {
  const database = useTestDatabase();
  beforeEach(() => database.db.query(RENEW));

  /** Merges as the service does. @returns the rows after each step */
  async function merge(pages: number): Promise<number[]> {
    const left: number[] = [];
    for (let page: string | null = '0'; page !== null;) {
      const { rows }: { rows: { page: string | null }[] } = await database.db.query(
        'SELECT merge_order_list_changes($1, $2)::text AS page',
        [page, pages],
      );
      page = rows[0]!.page;
      left.push((await tokensIn(database.db)).rows);
    }
    return left;
  }

  it('are merged to one for each block in steps that leave every version as it is, and their pages come back', async () => {
    await insertTokens(database.db, 50_000, 3);
    const before = await observe(database.url);
    expect((await merge(100)).length).toBeGreaterThan(3);
    expect(await tokensIn(database.db)).toMatchObject({ rows: 4, renewals: 1 });
    expect(await observe(database.url)).toEqual(before);
    await database.db.query('VACUUM order_list_changes');
    expect((await tokensIn(database.db)).pages).toBe(1);
  });

  it('of many blocks are merged into the one without a block, wherever that is, which leaves the ETag as it is', async () => {
    // The row without a block is not the first.
    await database.db.query('TRUNCATE order_list_changes');
    await insertTokens(database.db, 30_000, 30_000);
    await database.db.query('SELECT renew_order_list_versions()');
    const { etag } = await observe(database.url);
    await merge(1_000);
    expect(await tokensIn(database.db)).toMatchObject({ rows: 1, renewals: 1 });
    expect((await observe(database.url)).etag).toBe(etag);
    await database.db.query('VACUUM order_list_changes');
    expect((await tokensIn(database.db)).pages).toBe(1);
  });

  it('are left as they are while that makes few of them fewer, or none concerns every block', async () => {
    await insertTokens(database.db, 16_384, 16_384);
    await insertTokens(database.db, 200, 200);
    expect((await merge(1_000)).at(-1)).toBe(16_585);
    await database.db.query('TRUNCATE order_list_changes');
    await insertTokens(database.db, 20_000, 2);
    expect(await merge(1_000)).toEqual([20_000]);
  });

  it('are left to another process that merges, and to the primary', async () => {
    await insertTokens(database.db, 1_000, 1);
    const client = await database.db.connect();
    try {
      await client.query('BEGIN; SELECT pg_advisory_xact_lock(482871112565)');
      expect(await merge(1_000)).toEqual([1_001]);
      await client.query('COMMIT; BEGIN READ ONLY');
      await client.query('SELECT merge_order_list_changes(0, 1000)');
      await client.query('COMMIT');
    } finally {
      client.release();
    }
    expect(await tokensIn(database.db)).toMatchObject({ rows: 1_001 });
    expect((await merge(1_000)).at(-1)).toBe(2);
  });
});

describe('the list of a service', () => {
  const context = useTestService();
  beforeEach(() => context.service.db.query(RENEW));

  async function rowsRead(): Promise<number> {
    return (await ServiceMetrics.of(context.service.app)).sum('petstore_list_rows_total');
  }

  async function list(encoding: 'gzip' | 'identity'): Promise<{ etag: string; ids: string[] }> {
    const { etag, text } = await readList(context.service.baseUrl, context.key, encoding);
    return { etag: String(etag), ids: Array.from(text.matchAll(/\{"id":(-?\d+),/g), ([, id]) => id ?? '') };
  }

  it('keeps its versions when the service merges their rows, also while all tables are published', async () => {
    const { db, url } = context.service;
    await db.query('INSERT INTO orders (id, pet_id, quantity) VALUES (1, 1, 1)');
    await insertTokens(db, 50_000, 1);
    const before = await observe(url);
    await db.query('CREATE PUBLICATION everything FOR ALL TABLES');
    await waitFor(async () => (await tokensIn(db)).rows <= 3, 'the rows are merged');
    await db.query('DROP PUBLICATION everything');
    expect(await observe(url)).toEqual(before);
  });

  it('has orders that were loaded while the triggers were off, and reads only the piece that a later change touches', async () => {
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

  it('of orders in 40,000 blocks keeps its ETag when versions are merged, and reads later what changes', async () => {
    const { db } = context.service;
    const ORDERS = 40_000;
    const ids = Array.from({ length: ORDERS }, (_, n) => String((n + 1) * 2 ** 22));
    await db.query(
      `INSERT INTO orders (id, pet_id, quantity) SELECT n::bigint << 22, 1, 1 FROM generate_series(1, ${ORDERS}) AS n`,
    );
    const plain = await list('identity');
    expect(plain.ids).toEqual(ids);
    await waitFor(async () => (await tokensIn(db)).rows === 1, 'the versions are merged');
    expect(await list('gzip')).toEqual(plain);
    // Merged tokens concern every block, so the next change reads everything once.
    await db.query('UPDATE orders SET quantity = 2 WHERE id = 4194304');
    await list('gzip');
    const before = await rowsRead();
    for (const id of [1, 2 ** 30 + 1, 2 ** 40]) {
      await db.query('INSERT INTO orders (id, pet_id, quantity) VALUES ($1, 1, 1)', [id]);
      expect((await list('gzip')).ids).toContain(String(id));
    }
    // Three pieces of 4,096 orders.
    expect((await rowsRead()) - before).toBeLessThanOrEqual((3 * ORDERS) / 7);
    expect((await list('identity')).ids).toHaveLength(ORDERS + 3);
  });
});
