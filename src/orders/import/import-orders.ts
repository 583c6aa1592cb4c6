import type pg from 'pg';
import { sqlStateOf } from '../../database/postgres-errors.js';
import { loadOrders, raiseOrderSequence, SEQUENCE_END } from '../bulk-load.js';
import { type OrderFile, stageOrders } from './stage-orders.js';

const UNIQUE_VIOLATION = '23505';

export interface ImportOptions extends OrderFile {
  /** Checks everything, also against the existing orders, and changes nothing. */
  readonly dryRun?: boolean;
  /** Accepts a file without orders; otherwise it is an error, because the program that writes it may have failed. */
  readonly allowEmpty?: boolean;
}

/** Inserts nothing, and fails before the file is read when the role may not insert. */
const TRY_INSERT = 'INSERT INTO orders SELECT * FROM orders LIMIT 0';

const HIGHEST_ID = `SELECT max(id) AS id FROM order_import WHERE id < ${SEQUENCE_END}`;

const COLUMNS = 'pet_id, quantity, ship_date, complete, status, cancelled_at';

/**
 * By id, so that the rows lie in the order in which the list reads them. Rows without an id get theirs after the sort, in the order of
 * the file.
 */
const INSERT_STAGED = `
  INSERT INTO orders (id, ${COLUMNS})
  SELECT coalesce(id, nextval('orders_id_seq')), ${COLUMNS} FROM order_import ORDER BY order_import.id, line`;

/**
 * Imports a file of orders: all of them or none. Memory use does not depend on the size of the file.
 * @param db as for {@link loadOrders}
 * @returns the number of orders in the file
 * @throws {ImportRejected} with the invalid lines and fields
 */
export async function importOrders(db: pg.ClientBase, options: ImportOptions): Promise<number> {
  if (options.dryRun === true) {
    await db.query('BEGIN');
    return readFile(db, options).finally(() => db.query('ROLLBACK').catch(() => undefined));
  }
  return loadOrders(db, options, async () => {
    await db.query(TRY_INSERT);
    const count = await readFile(db, options);
    await insertStaged(db);
    return count;
  });
}

async function readFile(db: pg.ClientBase, options: ImportOptions): Promise<number> {
  const count = await stageOrders(db, options);
  if (count === 0 && options.allowEmpty !== true) {
    throw new Error('The file has no orders. Check what wrote it, or pass --allow-empty.');
  }
  return count;
}

/** @throws {Error} when another order has an id since the check, or has the next id: the sequence does not pass ids near its end */
async function insertStaged(db: pg.ClientBase): Promise<void> {
  const { rows } = await db.query<{ id: string | null }>(HIGHEST_ID);
  await raiseOrderSequence(db, rows[0]?.id ?? null);
  try {
    await db.query(INSERT_STAGED);
  } catch (error) {
    if (sqlStateOf(error) !== UNIQUE_VIOLATION) {
      throw error;
    }
    const { message, detail = '' } = error as pg.DatabaseError;
    throw new Error(
      `An id of the file, or the next id of an order without one, is not free any more (${message} ${detail}); ` +
        'nothing was imported. Import again, which names the line, or give every order an id.',
      { cause: error },
    );
  }
}
