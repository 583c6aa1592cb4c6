import type pg from 'pg';
import { waitFor } from './wait-for.js';

/** How many sessions wait for a lock in the database of the pool; other test files use other databases of the server. */
export async function lockWaits(db: pg.Pool, applicationName = '%'): Promise<number> {
  const { rowCount } = await db.query(
    `SELECT FROM pg_stat_activity
     WHERE datname = current_database() AND wait_event_type = 'Lock' AND application_name LIKE $1`,
    [applicationName],
  );
  return rowCount ?? 0;
}

export function untilLockWaits(db: pg.Pool, count = 1, applicationName?: string): Promise<void> {
  return waitFor(async () => (await lockWaits(db, applicationName)) >= count, `${count} sessions wait for a lock`);
}

export type EndTransaction = (end?: 'COMMIT' | 'ROLLBACK') => Promise<void>;

/** Those that a test has not ended, because it failed before: nothing that waits for their locks would go on, not even its end. */
const left = new Set<EndTransaction>();
const endAll = (): Promise<unknown> => Promise.all(Array.from(left, (end) => end()));
afterEach(endAll);
// Jest calls no `afterEach` for `it.concurrent`. A session that stays open keeps the database from being dropped.
afterAll(endAll);

/** Runs a statement in a transaction that stays open. @returns a function that ends it once, by default with ROLLBACK */
export async function openTransaction(db: pg.Pool, statement: string, values?: unknown[]): Promise<EndTransaction> {
  const session = await db.connect();
  await session.query('BEGIN');
  await session.query(statement, values);
  const endTransaction: EndTransaction = async (end = 'ROLLBACK') => {
    if (left.delete(endTransaction)) {
      await session.query(end).finally(() => {
        session.release();
      });
    }
  };
  left.add(endTransaction);
  return endTransaction;
}

/** Locks the row of an order as another transaction does. @returns a function that releases it */
export function lockOrder(db: pg.Pool, id: string): Promise<EndTransaction> {
  return openTransaction(db, 'SELECT FROM orders WHERE id = $1 FOR UPDATE', [id]);
}

/** Locks a table as ALTER TABLE does. @returns a function that releases it */
export function lockTable(db: pg.Pool, table: string): Promise<EndTransaction> {
  return openTransaction(db, `LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`);
}
