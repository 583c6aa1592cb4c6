import type pg from 'pg';

/**
 * Never backwards, whatever numbers were taken meanwhile. Ids from 2^62 on, which no sequence lives to see, do not drag
 * it along: past the last of them there would be nothing left. Takes a number from the sequence.
 */
const RAISE_SEQUENCE = `
  SELECT setval(sequence, greatest(
    nextval(sequence), (SELECT max(id) FROM orders WHERE id < 4611686018427387904)
  )) FROM pg_get_serial_sequence('orders', 'id') AS sequence`;

/** After orders were made with ids of their own: new orders get ids above them. */
export async function raiseOrderSequence(db: pg.ClientBase): Promise<void> {
  await db.query(RAISE_SEQUENCE);
}
