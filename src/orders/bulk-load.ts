import type pg from 'pg';

/** How far a load of many orders is. */
export class LoadProgress {
  /** Read or inserted so far. */
  orders = 0;
  /** Whether the commit has begun; it may succeed even if its response is lost. */
  isCommitting = false;
}

/** One load at a time, by an advisory lock: it conflicts with other loads only, not with VACUUM or index builds. */
const LOCK_OUT_OTHER_LOADS = 'SELECT pg_advisory_xact_lock(482871112564)';

/** Ids of at least 2^62 do not raise the sequence, so that it does not run out of ids. */
export const SEQUENCE_END = '4611686018427387904';

/** Takes long after many deletes: the index still has their entries. */
const HIGHEST_ID = `SELECT greatest(max(id), $1::bigint) AS highest FROM orders WHERE id < ${SEQUENCE_END}`;

/**
 * A small step draws the ids, so that inserts at the same time cannot move the sequence past `highest` before `setval`
 * moves it back. Over a large step they cannot draw enough ids within the statement, which takes less than a millisecond then.
 */
const RAISE_SEQUENCE = `
  SELECT CASE WHEN highest - last > 100000 THEN setval(sequence, highest)
              ELSE (SELECT max(id) FROM (SELECT nextval(sequence) AS id FROM generate_series(last + 1, highest)) AS drawn) END
  FROM CAST(pg_get_serial_sequence('orders', 'id') AS regclass) AS sequence,
       (SELECT last_value - (NOT is_called)::integer AS last FROM orders_id_seq) AS drawn_before, CAST($1 AS bigint) AS highest
  WHERE highest > last`;

/**
 * Loads orders in one transaction: all of them or none. No ANALYZE is needed: the statements of the service use the index without
 * statistics, too, by the settings of their sessions.
 * @param db a connection outside a transaction; its `lock_timeout` bounds the waits
 * @param work inserts orders and returns their number
 */
export async function loadOrders(
  db: pg.ClientBase,
  progress: LoadProgress,
  work: () => Promise<number>,
): Promise<number> {
  await db.query('BEGIN');
  try {
    await db.query(LOCK_OUT_OTHER_LOADS);
    const count = await work();
    progress.isCommitting = true;
    await db.query('COMMIT');
    return count;
  } catch (error) {
    // After a lost connection the server rolls back by itself; the first error is the one to report.
    await db.query('ROLLBACK').catch(() => undefined);
    throw error;
  }
}

/**
 * Raises the id sequence above the existing orders and the ids that are about to be inserted. Runs before the insert, so
 * that orders inserted at the same time get other ids. Takes effect at once, also if the transaction is rolled back.
 * @param highestId the highest id to be inserted, below {@link SEQUENCE_END}; null when the rows have no ids
 */
export async function raiseOrderSequence(db: pg.ClientBase, highestId: string | number | null): Promise<void> {
  const { rows } = await db.query<{ highest: string | null }>(HIGHEST_ID, [highestId]);
  await db.query(RAISE_SEQUENCE, [rows[0]?.highest]);
}
