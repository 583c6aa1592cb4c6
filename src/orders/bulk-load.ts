import type pg from 'pg';
import { asError } from '../common/as-error.js';

/** What a load of many orders reports, and what ends it. */
export interface LoadListener {
  /** Called with the number of orders read or inserted so far. */
  readonly onProgress?: (orders: number) => void;
  /** Called when the orders are committed and something after that failed. */
  readonly onWarning?: (message: string) => void;
  /** Called before the commit, which {@link signal} does not end any more. */
  readonly onCommit?: () => void;
  readonly signal?: AbortSignal;
}

/** Ids of at least 2^62 do not raise the sequence, so that it does not run out of ids. */
export const SEQUENCE_END = '4611686018427387904';

/** Key of the advisory lock of those who raise the sequence. */
const RAISE_LOCK = 7_203_146_519;

/**
 * A small step draws the ids, so that inserts at the same time cannot move the sequence past `highest` before `setval`
 * moves it back. Over a large step they cannot draw enough ids within the statement.
 */
const RAISE_SEQUENCE = `
  SELECT CASE WHEN highest - last > 1000 THEN setval(sequence, highest)
              ELSE (SELECT max(id) FROM (SELECT nextval(sequence) AS id FROM generate_series(last + 1, highest)) AS drawn) END
  FROM CAST(pg_get_serial_sequence('orders', 'id') AS regclass) AS sequence,
       coalesce(pg_sequence_last_value(sequence), 0) AS last,
       (SELECT greatest(max(id), $1::bigint) FROM orders WHERE id < ${SEQUENCE_END}) AS used (highest)
  WHERE highest > last`;

/**
 * Raises the id sequence above the existing orders and the ids that are about to be inserted. Runs before the insert, so
 * that orders inserted at the same time get other ids. Takes effect at once, also if the transaction is rolled back.
 * @param highestId the highest id to be inserted, below {@link SEQUENCE_END}; null when the rows have no ids
 */
export async function raiseOrderSequence(db: pg.ClientBase, highestId: string | number | null): Promise<void> {
  // One at a time: the sequence of another load could otherwise be moved back.
  await db.query('SELECT pg_advisory_lock($1)', [RAISE_LOCK]);
  try {
    await db.query(RAISE_SEQUENCE, [highestId]);
  } finally {
    // A transaction that has failed keeps it until the connection ends.
    await db.query('SELECT pg_advisory_unlock($1)', [RAISE_LOCK]).catch(() => undefined);
  }
}

/**
 * Updates the planner's statistics, so that the list is read in the order of the primary key. The orders are committed
 * by then: a failure is a warning.
 */
export async function analyzeOrders(db: pg.ClientBase, onWarning?: (message: string) => void): Promise<void> {
  try {
    await db.query('ANALYZE orders');
  } catch (error) {
    const reason = asError(error).message;
    onWarning?.(`The orders are committed, but ANALYZE failed (${reason}). Run "ANALYZE orders" in the database.`);
  }
}
