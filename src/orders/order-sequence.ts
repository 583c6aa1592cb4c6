import type pg from 'pg';

/**
 * Only upwards, and takes no number itself: orders without ids leave no gap. Ids from 2^62 on, which no sequence lives to
 * see, do not drag it along: past the last of them there would be nothing left.
 */
const RAISE_SEQUENCE = `
  SELECT setval(sequence, highest)
  FROM CAST(pg_get_serial_sequence('orders', 'id') AS regclass) AS sequence,
       (SELECT max(id) FROM orders WHERE id < 4611686018427387904) AS taken (highest)
  WHERE highest > coalesce(pg_sequence_last_value(sequence), 0)`;

/** After orders were made with ids of their own: new orders get ids above them. */
export async function raiseOrderSequence(db: pg.ClientBase): Promise<void> {
  await db.query(RAISE_SEQUENCE);
}
