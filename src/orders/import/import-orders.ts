import type pg from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { loadOrders, LoadProgress, raiseOrderSequence, SEQUENCE_END } from '../bulk-load.js';
import { ORDER_COLUMNS } from '../order-columns.js';
import { COPY_COLUMNS } from './order-row.js';
import { copyCsv, IMPORT_ERRORS_MAX, reject } from './read-csv.js';

export interface ImportOptions {
  /** Checks everything, also against the existing orders, and changes nothing. */
  readonly dryRun?: boolean;
  /** Accepts a file without orders; otherwise it is an error, because the program that writes it may have failed. */
  readonly allowEmpty?: boolean;
  /** Accepts a last row without a line end, which otherwise counts as cut off. */
  readonly complete?: boolean;
}

/**
 * The file is staged under the constraints of `orders`, so that PostgreSQL checks every row before an order is inserted:
 * a rejected file and a dry run leave no dead rows and draw no id from the sequence.
 */
const CREATE_STAGE = `
  CREATE TEMPORARY TABLE order_import (LIKE orders INCLUDING DEFAULTS INCLUDING CONSTRAINTS, line bigint NOT NULL) ON COMMIT DROP;
  ALTER TABLE order_import ALTER COLUMN id DROP NOT NULL`;

/** Ids that occur more than once in the file, and ids of existing orders. */
const INVALID_IDS = `
  SELECT line, format('line %s, id must be unique in the file (got %s, as in line %s)', line, id, first_line) AS problem
  FROM (SELECT line, id, min(line) OVER (PARTITION BY id) AS first_line FROM order_import WHERE id IS NOT NULL) AS numbered
  WHERE line > first_line
  UNION ALL
  SELECT line, format('line %s, id must not be the id of an existing order (got %s)', line, id) FROM order_import JOIN orders USING (id)
  ORDER BY line LIMIT ${IMPORT_ERRORS_MAX}`;

const HIGHEST_ID = `SELECT max(id) AS id FROM order_import WHERE id < ${SEQUENCE_END}`;

const LISTED = ORDER_COLUMNS.map(({ column }) => column).filter((column) => column !== 'id');
const COLUMNS = [...LISTED, 'status', 'cancelled_at'].join();

/**
 * By id, so that the rows lie in the order in which the list reads them. Rows without an id get theirs after the sort, in the order of
 * the file.
 */
const INSERT_STAGED = `
  INSERT INTO orders (id, ${COLUMNS})
  SELECT coalesce(id, nextval('orders_id_seq')), ${COLUMNS} FROM order_import ORDER BY order_import.id, line`;

/**
 * Imports a CSV file of orders: all of them or none. Memory use does not depend on the size of the file.
 * @param db as for {@link loadOrders}
 * @returns the number of orders in the file
 * @throws {Error} with the invalid lines and fields
 */
export async function importOrders(
  db: pg.ClientBase,
  file: AsyncIterable<Buffer>,
  options: ImportOptions = {},
  progress = new LoadProgress(),
): Promise<number> {
  if (options.dryRun === true) {
    await db.query('BEGIN');
    return stageOrders(db, file, options, progress).finally(() => db.query('ROLLBACK').catch(() => undefined));
  }
  return loadOrders(db, progress, async () => {
    const count = await stageOrders(db, file, options, progress);
    const { rows } = await db.query<{ id: string | null }>(HIGHEST_ID);
    await raiseOrderSequence(db, rows[0]?.id ?? null);
    await db.query(INSERT_STAGED);
    return count;
  });
}

/** Copies the file into the stage and checks it against itself and the existing orders. */
async function stageOrders(
  db: pg.ClientBase,
  file: AsyncIterable<Buffer>,
  { allowEmpty = false, complete = false }: ImportOptions,
  progress: LoadProgress,
): Promise<number> {
  await db.query(CREATE_STAGE);
  const copy = db.query(copyFrom(`COPY order_import (${COPY_COLUMNS}) FROM STDIN`));
  await copyCsv(file, copy, complete, progress);
  const { rows } = await db.query<{ problem: string }>(INVALID_IDS);
  reject(rows.map(({ problem }) => problem));
  if (copy.rowCount === 0 && !allowEmpty) {
    throw new Error('The file has no orders. Check what wrote it, or pass --allow-empty.');
  }
  return copy.rowCount;
}
