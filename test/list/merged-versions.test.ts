import { useTestDatabase } from '../helpers/test-database.js';
import { startTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { observe } from '../models/list-writer.js';

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

it('many changes of few blocks while a service runs: it merges them, which leaves every version as it is', async () => {
  // Of the first two of the blocks.
  await database.db.query('INSERT INTO orders (id, pet_id, quantity) VALUES (1, 1, 1), (114688, 2, 2)');
  await insertTokens(50_000, 3);
  const before = await observe(database.url);
  const service = await startTestService({ database });
  await waitFor(async () => (await tokens()).rows <= 4, 'the rows are merged');
  await service.stop();
  expect(await observe(database.url)).toEqual(before);
});

it('changes of many blocks: merged into the row without a block, which leaves the ETag as it is', async () => {
  // That row is not the first.
  await database.db.query('TRUNCATE order_list_changes');
  await insertTokens(30_000, 30_000);
  await database.db.query('SELECT renew_order_list_versions()');
  const { etag } = await observe(database.url);
  await database.db.query('SELECT merge_order_list_changes(0, 1000)');
  expect(await tokens()).toEqual({ rows: 1, renewals: 1 });
  expect((await observe(database.url)).etag).toBe(etag);
});
