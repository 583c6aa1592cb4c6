import { useTestDatabase } from '../helpers/test-database.js';
import { startTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { observe } from '../models/list-writer.js';

const database = useTestDatabase();
beforeEach(() => database.db.query('TRUNCATE orders, order_list_changes; SELECT renew_order_list_versions()'));

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

/** Autovacuum's own ANALYZE may hold a snapshot that sees the rows. */
async function vacuumToOnePage(): Promise<void> {
  await waitFor(async () => {
    await database.db.query('VACUUM order_list_changes');
    const { rows } = await database.db.query<{ pages: number }>(
      "SELECT (pg_relation_size('order_list_changes') / current_setting('block_size')::int)::int AS pages",
    );
    return rows[0]!.pages === 1;
  }, 'the table has one page');
}

/** Merges as the service does, in steps of so many pages. @returns the number of steps */
async function merge(pages: number): Promise<number> {
  let steps = 0;
  for (let page: string | null = '0'; page !== null; steps++) {
    const { rows }: { rows: { page: string | null }[] } = await database.db.query(
      'SELECT merge_order_list_changes($1, $2)::text AS page',
      [page, pages],
    );
    page = rows[0]!.page;
  }
  return steps;
}

it('many changes of few blocks: merged to one row for each in steps, which leaves every version as it is', async () => {
  await insertTokens(50_000, 3);
  const before = await observe(database.url);
  expect(await merge(100)).toBeGreaterThan(3);
  expect(await tokens()).toEqual({ rows: 4, renewals: 1 });
  expect(await observe(database.url)).toEqual(before);
  await vacuumToOnePage();
});

it('changes of many blocks: merged into the row without a block, which leaves the ETag as it is', async () => {
  // That row is not the first.
  await database.db.query('TRUNCATE order_list_changes');
  await insertTokens(30_000, 30_000);
  await database.db.query('SELECT renew_order_list_versions()');
  const { etag } = await observe(database.url);
  await merge(1_000);
  expect(await tokens()).toEqual({ rows: 1, renewals: 1 });
  expect((await observe(database.url)).etag).toBe(etag);
  await vacuumToOnePage();
});

it('many changes while a service runs: it merges them', async () => {
  await database.db.query('INSERT INTO orders (id, pet_id, quantity) VALUES (1, 1, 1)');
  await insertTokens(50_000, 1);
  const before = await observe(database.url);
  const service = await startTestService({ database });
  await waitFor(async () => (await tokens()).rows <= 3, 'the rows are merged');
  await service.stop();
  expect(await observe(database.url)).toEqual(before);
});
