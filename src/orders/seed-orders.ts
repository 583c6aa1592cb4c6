import type pg from 'pg';
import { loadOrders, LoadProgress, raiseOrderSequence } from './bulk-load.js';

/** Orders per statement: small enough to report progress, large enough to be fast. */
const CHUNK = 100_000;

/**
 * Each generated order depends on its number only: half are pending, a third shipped, the rest cancelled. Existing orders
 * stay as they are, so seeding twice changes nothing.
 */
const INSERT_GENERATED = `
  INSERT INTO orders (id, pet_id, quantity, ship_date, complete, status, created_at, cancelled_at)
  SELECT n, 1 + n * 7919 % 99991, 1 + n * 31 % 5,
         CASE WHEN n % 7 = 0 THEN NULL ELSE created_at + interval '1 hour' * (24 + n % 240) + interval '1 millisecond' * (n * 37 % 1000) END,
         status = 'shipped' AND n % 2 = 0, status, created_at, CASE WHEN status = 'cancelled' THEN created_at + interval '90 minutes' END
  FROM (
    SELECT n, timestamptz '2026-01-01 00:00:00+00' + interval '1 minute' * (n % 500000) AS created_at,
           (CASE WHEN n % 6 IN (0, 1, 2) THEN 'pending' WHEN n % 6 IN (3, 4) THEN 'shipped' ELSE 'cancelled' END)::order_status AS status
    FROM generate_series($1::bigint, $2::bigint) AS n
  ) AS generated
  ON CONFLICT (id) DO NOTHING`;

/**
 * Generates the orders 1 to `count`.
 * @returns how many did not exist before
 */
export function seedOrders(db: pg.ClientBase, count: number, progress = new LoadProgress()): Promise<number> {
  return loadOrders(db, progress, async () => {
    let created = 0;
    await raiseOrderSequence(db, count);
    for (let first = 1; first <= count; first += CHUNK) {
      const last = Math.min(first + CHUNK - 1, count);
      const { rowCount } = await db.query(INSERT_GENERATED, [first, last]);
      created += rowCount ?? 0;
      progress.orders = last;
    }
    return created;
  });
}
