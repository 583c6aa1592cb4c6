import { pipeline } from 'node:stream/promises';
import type pg from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { raiseOrderSequence } from '../order-sequence.js';
import { IMPORT_ERRORS_MAX, ImportErrorList } from './import-errors.js';
import { COPY_COLUMNS, copyLineOf, type OrderText } from './order-fields.js';
import { readCsv } from './read-csv.js';
import { readNdjson } from './read-ndjson.js';

const READERS = { ndjson: readNdjson, csv: readCsv };

export type ImportFormat = keyof typeof READERS;

export interface ImportOptions {
  readonly source: AsyncIterable<Buffer>;
  readonly format: ImportFormat;
  /** Checks everything, also against the orders that exist, and changes nothing. */
  readonly dryRun: boolean;
  /** Told, as the file is read, how many bytes and orders of it have been. */
  readonly onProgress?: (bytes: number, orders: number) => void;
}

/**
 * The file is staged under the rules of the table itself, so that the database judges every row before an order is
 * touched: a refused file and a dry run leave no dead rows and take no number from the sequence.
 */
const CREATE_STAGE = `
  CREATE TEMPORARY TABLE order_import (LIKE orders INCLUDING DEFAULTS INCLUDING CONSTRAINTS, line bigint NOT NULL) ON COMMIT DROP;
  ALTER TABLE order_import ALTER COLUMN id DROP NOT NULL`;

const COPY_TO_STAGE = `COPY order_import (${COPY_COLUMNS}) FROM STDIN`;

/** Conflicts with itself alone: one import at a time, while orders are listed and cancelled as ever. */
const LOCK_OUT_OTHER_IMPORTS = 'LOCK TABLE orders IN SHARE UPDATE EXCLUSIVE MODE';

/** Ids that stand twice in the file. */
const REPEATED_IDS = `
  SELECT line, id, first_line FROM (
    SELECT line, id, min(line) OVER (PARTITION BY id) AS first_line FROM order_import WHERE id IS NOT NULL
  ) AS numbered
  WHERE line > first_line ORDER BY line LIMIT $1`;

/** Ids that orders have already. */
const TAKEN_IDS = 'SELECT line, id FROM order_import JOIN orders USING (id) ORDER BY line LIMIT $1';

const COLUMNS = 'pet_id, quantity, ship_date, complete, status, cancelled_at';

/** By id, so that the table lies in the order that the list reads it in. */
const INSERT_NUMBERED = `
  INSERT INTO orders (id, ${COLUMNS}) SELECT id, ${COLUMNS} FROM order_import WHERE id IS NOT NULL ORDER BY id`;

/** The rows without an id get theirs in the order of the file. */
const INSERT_UNNUMBERED = `
  INSERT INTO orders (${COLUMNS}) SELECT ${COLUMNS} FROM order_import WHERE id IS NULL ORDER BY line`;

/**
 * Imports a file of orders in one transaction: all of them or none. Takes memory for a few chunks, however long the file.
 * @param db a connection without a transaction
 * @returns how many orders the file holds
 * @throws {ImportRejected} with the lines and fields that are wrong
 */
export async function importOrders(db: pg.ClientBase, options: ImportOptions): Promise<number> {
  await db.query('BEGIN');
  try {
    const count = await stage(db, options);
    if (options.dryRun) {
      await db.query('ROLLBACK');
      return count;
    }
    await db.query(INSERT_NUMBERED);
    await raiseOrderSequence(db);
    await db.query(INSERT_UNNUMBERED);
    await db.query('COMMIT');
    // The list is read by the primary key; fresh statistics let the planner see that the table lies in its order.
    await db.query('ANALYZE orders');
    return count;
  } catch (error) {
    // When the connection is lost, the server rolls back by itself, and the first error is the one to tell.
    await db.query('ROLLBACK').catch(() => undefined);
    throw error;
  }
}

/** Brings the file into the stage, where every row is known to be right and to have an id of its own. */
async function stage(db: pg.ClientBase, options: ImportOptions): Promise<number> {
  const faults = new ImportErrorList();
  await db.query(CREATE_STAGE);
  const copy = db.query(copyFrom(COPY_TO_STAGE));
  await pipeline(copyLines(options, faults), copy);
  await db.query('ANALYZE order_import');
  if (!options.dryRun) {
    await db.query(LOCK_OUT_OTHER_IMPORTS);
  }
  await findConflicts(db, faults);
  faults.refuseIfAny();
  return copy.rowCount;
}

async function* copyLines(
  { source, format, onProgress }: ImportOptions,
  faults: ImportErrorList,
): AsyncGenerator<string> {
  let [bytes, count] = [0, 0];
  const counted = counting(source, (length) => (bytes += length));
  for await (const orders of READERS[format](counted, faults)) {
    yield copyTextOf(orders, faults);
    count += orders.length;
    onProgress?.(bytes, count);
  }
}

async function* counting(source: AsyncIterable<Buffer>, add: (bytes: number) => void): AsyncGenerator<Buffer> {
  for await (const chunk of source) {
    add(chunk.length);
    yield chunk;
  }
}

function copyTextOf(orders: readonly OrderText[], faults: ImportErrorList): string {
  let text = '';
  for (const order of orders) {
    text += copyLineOf(order, faults) ?? '';
  }
  return text;
}

async function findConflicts(db: pg.ClientBase, faults: ImportErrorList): Promise<void> {
  const repeated = await db.query<{ line: string; id: string; first_line: string }>(REPEATED_IDS, [IMPORT_ERRORS_MAX]);
  const taken = await db.query<{ line: string; id: string }>(TAKEN_IDS, [IMPORT_ERRORS_MAX]);
  for (const { line, id, first_line } of repeated.rows) {
    faults.add({ line: Number(line), field: 'id', problem: `${id} stands in line ${first_line} already` });
  }
  for (const { line, id } of taken.rows) {
    faults.add({ line: Number(line), field: 'id', problem: `${id} is that of an order that exists already` });
  }
}
