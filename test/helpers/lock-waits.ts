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

/** Locks the row of an order as another transaction does. @returns a function that releases it */
export async function lockOrder(db: pg.Pool, id: string): Promise<() => Promise<void>> {
  const holder = await db.connect();
  await holder.query('BEGIN');
  await holder.query('SELECT FROM orders WHERE id = $1 FOR UPDATE', [id]);
  return async () => {
    await holder.query('ROLLBACK');
    holder.release();
  };
}
