import { pipeline } from 'node:stream/promises';
import type pg from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { sqlStateOf } from '../../database/postgres-errors.js';
import { loadOrders, LoadProgress, raiseOrderSequence, SEQUENCE_END } from '../bulk-load.js';
import { ORDER_COLUMNS } from '../order-columns.js';
import { IMPORT_ERRORS_MAX, ImportErrors } from './import-errors.js';
import { COPY_COLUMNS, copyLineOf } from './order-row.js';
import { type OrderValues, readCsv } from './read-csv.js';

const UNIQUE_VIOLATION = '23505';
/** Lines that are sent together. */
const BATCH_CHARACTERS = 32_768;

export interface ImportOptions {
  /** Checks everything, also against the existing orders, and changes nothing. */
  readonly dryRun?: boolean;
  /** Accepts a file without orders; otherwise it is an error, because the program that writes it may have failed. */
  readonly allowEmpty?: boolean;
  /** Accepts a last row without a line end, which otherwise counts as cut off. */
  readonly complete?: boolean;
}

/** Inserts nothing, and fails before the file is read when the role may not insert. */
const TRY_INSERT = 'INSERT INTO orders SELECT * FROM orders LIMIT 0';

/**
 * The file is staged under the constraints of `orders`, so that PostgreSQL checks every row before an order is inserted:
 * a rejected file and a dry run leave no dead rows and draw no id from the sequence.
 */
const CREATE_STAGE = `
  CREATE TEMPORARY TABLE order_import (LIKE orders INCLUDING DEFAULTS INCLUDING CONSTRAINTS, line bigint NOT NULL) ON COMMIT DROP;
  ALTER TABLE order_import ALTER COLUMN id DROP NOT NULL`;

const COPY_TO_STAGE = `COPY order_import (${COPY_COLUMNS}) FROM STDIN`;

/** Ids that occur more than once in the file, and ids of existing orders. */
const INVALID_IDS = `
  SELECT line, format('must be unique in the file (got %s, as in line %s)', id, first_line) AS problem
  FROM (SELECT line, id, min(line) OVER (PARTITION BY id) AS first_line FROM order_import WHERE id IS NOT NULL) AS numbered
  WHERE line > first_line
  UNION ALL
  SELECT line, format('must not be the id of an existing order (got %s)', id) FROM order_import JOIN orders USING (id)
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
    await db.query(TRY_INSERT);
    const count = await stageOrders(db, file, options, progress);
    await insertStaged(db);
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
  const errors = new ImportErrors();
  await db.query(CREATE_STAGE);
  const copy = db.query(copyFrom(COPY_TO_STAGE));
  await pipeline(copyLines(readCsv(file, errors, complete), errors, progress), copy);
  await db.query('ANALYZE order_import');
  const { rows } = await db.query<{ line: string; problem: string }>(INVALID_IDS);
  for (const { line, problem } of rows) {
    errors.add(Number(line), problem, 'id');
  }
  errors.throwIfAny();
  if (copy.rowCount === 0 && !allowEmpty) {
    throw new Error('The file has no orders. Check what wrote it, or pass --allow-empty.');
  }
  return copy.rowCount;
}

async function* copyLines(
  rows: AsyncIterable<OrderValues>,
  errors: ImportErrors,
  progress: LoadProgress,
): AsyncGenerator<string> {
  let lines = '';
  for await (const [line, values] of rows) {
    lines += copyLineOf(line, values, errors) ?? '';
    progress.orders++;
    if (lines.length >= BATCH_CHARACTERS) {
      yield lines;
      lines = '';
    }
  }
  yield lines;
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
      `An id in the file, or the next id for an order without one, is already in use (${message} ${detail}); ` +
        'nothing was imported. Import again to see the line, or give every order an id.',
      { cause: error },
    );
  }
}
