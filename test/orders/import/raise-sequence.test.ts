import pg from 'pg';
import { raiseOrderSequence } from '../../../src/orders/bulk-load.js';
import { createTestDatabase, type TestDatabase } from '../../helpers/test-database.js';
import { waitFor } from '../../helpers/wait-for.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

it('is raised by one load after the other, so that none moves it back', async () => {
  const loads = [5_000, 1_000_000].map((highest) => ({ highest, client: new pg.Client(database.url) }));
  const locking = await database.db.connect();
  // Both have begun, and neither has read the table.
  await locking.query('BEGIN; LOCK TABLE orders IN ACCESS EXCLUSIVE MODE');
  const raised = Promise.all(
    loads.map(async ({ client, highest }) => {
      await client.connect();
      await raiseOrderSequence(client, highest);
    }),
  );
  const WAITING = `SELECT FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted`;
  await waitFor(async () => (await database.db.query(WAITING)).rowCount === 1, 'the second load waits for the first');
  await locking.query('ROLLBACK');
  locking.release();
  await raised;
  const { rows } = await database.db.query<{ last: string }>('SELECT last_value AS last FROM orders_id_seq');
  expect(rows).toEqual([{ last: '1000000' }]);
  await Promise.all(loads.map(({ client }) => client.end()));
});
