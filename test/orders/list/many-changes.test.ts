import type { QueryResultRow } from 'pg';
import { onlyRow } from '../../../src/database/only-row.js';
import { Pools } from '../../../src/database/pools.js';
import { ListCompaction } from '../../../src/orders/list/list-compaction.js';
import { ListVersions, type Query } from '../../../src/orders/list/list-versions.js';
import { readList } from '../../helpers/raw-http.js';
import { Metrics } from '../../../src/metrics/metrics.js';
import { ServiceMetrics } from '../../helpers/service-metrics.js';
import { useTestService } from '../../helpers/test-service.js';
import { waitFor } from '../../helpers/wait-for.js';
import { observe } from '../../model/list-writer.js';

const context = useTestService();
beforeEach(() => context.service.db.query('TRUNCATE orders, order_list_changes; SELECT renew_order_list_versions()'));

async function tokens(): Promise<number> {
  const { rows } = await context.service.db.query<{ n: number }>('SELECT count(*)::int AS n FROM order_list_changes');
  return rows[0]!.n;
}

async function piecesRead(): Promise<number> {
  return (await ServiceMetrics.of(context.service.app)).sum('petstore_list_pieces_total', 'database');
}

async function list(encoding: 'gzip' | 'identity'): Promise<{ etag: string; ids: string[] }> {
  const { etag, text } = await readList(context.service.baseUrl, context.key, encoding);
  return { etag: String(etag), ids: Array.from(text.matchAll(/\{"id":(-?\d+),/g), ([, id]) => id ?? '') };
}

describe('many changes of one block', () => {
  const CHANGES = 50_000;

  beforeEach(() =>
    context.service.db.query(`
      INSERT INTO orders (id, pet_id, quantity) VALUES (1, 1, 1);
      INSERT INTO order_list_changes (block, token)
        SELECT 0, hashtextextended(n::text, 0) FROM generate_series(2, ${CHANGES}) AS n`),
  );

  it('are compacted in steps of 100 pages that leave the version as it is', async () => {
    const { name } = await observe(context.service.url);
    const counts: number[] = [];
    for (let page: string | null = '0'; page !== null;) {
      const { rows }: { rows: { page: string | null }[] } = await context.service.db.query(
        'SELECT compact_order_list_changes($1)::text AS page',
        [page],
      );
      page = rows[0]!.page;
      expect((await observe(context.service.url)).name).toBe(name);
      counts.push(await tokens());
    }
    expect(counts.length).toBeGreaterThan(3);
    // One for the block, and one that concerns every block; the last step has merged what the others left.
    expect(counts.at(-1)).toBeLessThanOrEqual(3);
  });

  it('are compacted by the service after a list, also while all tables are published', async () => {
    const { name } = await observe(context.service.url);
    await context.service.db.query('CREATE PUBLICATION everything FOR ALL TABLES');
    expect((await list('gzip')).ids).toEqual(['1']);
    await waitFor(async () => (await tokens()) <= 3, 'the changes are compacted');
    await context.service.db.query('DROP PUBLICATION everything');
    expect((await observe(context.service.url)).name).toBe(name);
  });
});

it('orders loaded while the triggers were off are listed, and divided into pieces that later changes read again one by one', async () => {
  const { db } = context.service;
  await db.query(`
    ALTER TABLE orders DISABLE TRIGGER ALL;
    INSERT INTO orders (id, pet_id, quantity) SELECT n, n, 1 FROM generate_series(-9, 70000) AS n;
    ALTER TABLE orders ENABLE ALWAYS TRIGGER orders_note_insert;
    ALTER TABLE orders ENABLE ALWAYS TRIGGER orders_note_update;
    ALTER TABLE orders ENABLE ALWAYS TRIGGER orders_note_delete`);
  const loaded = await list('gzip');
  expect(loaded.ids).toHaveLength(70_010);
  // The blocks -1 to 4.
  await waitFor(async () => (await tokens()) === 1 + 6, 'the blocks are noted');
  expect(await list('identity')).toEqual(loaded);
  for (const pieces of [6, 1]) {
    const before = await list('gzip');
    const read = await piecesRead();
    await db.query('UPDATE orders SET quantity = quantity + 1 WHERE id = 50000');
    const after = await list('gzip');
    expect(after.ids).toEqual(before.ids);
    expect(after.etag).not.toBe(before.etag);
    expect((await piecesRead()) - read).toBe(pieces);
  }
});

describe('a list of more blocks than a version names', () => {
  const ORDERS = 9_000;
  const IDS = Array.from({ length: ORDERS }, (_, n) => String((n + 1) * 2 ** 22));

  beforeEach(() =>
    context.service.db.query(
      `INSERT INTO orders (id, pet_id, quantity) SELECT n::bigint << 22, 1, 1 FROM generate_series(1, ${ORDERS}) AS n`,
    ),
  );

  it('has pieces of several blocks, keeps ETag and memory, and is complete and current in either encoding', async () => {
    const { db } = context.service;
    const plain = await list('identity');
    const compressed = await list('gzip');
    expect(plain.ids).toEqual(IDS);
    expect(compressed).toEqual(plain);
    const read = await piecesRead();
    expect(read).toBeLessThanOrEqual(4_096);
    await db.query('INSERT INTO orders (id, pet_id, quantity) VALUES (1, 1, 1)');
    const after = await list('gzip');
    expect(after.etag).not.toBe(plain.etag);
    expect(after.ids).toEqual(['1', ...IDS]);
    expect((await piecesRead()) - read).toBeLessThanOrEqual(2);
  });

  it('is divided in the same way by versions that are read at once', async () => {
    const { app, db } = context.service;
    const versions = new ListVersions(app.get(Pools), app.get(ListCompaction), new Metrics());
    const query: Query = async <T extends QueryResultRow>(_name: string, text: string, values?: readonly unknown[]) =>
      onlyRow((await db.query<T>(text, [...(values ?? [])])).rows);
    const read = await Promise.all(Array.from({ length: 4 }, () => versions.inTransaction(query)));
    for (const version of read) {
      // Each piece of 2^26 ids has 16 orders.
      expect(version?.pieces).toHaveLength(Math.floor(ORDERS / 16) + 1);
      expect(version?.pieces).toEqual(read[0]?.pieces);
    }
  });
});
