import { pipeline } from 'node:stream/promises';
import type pg from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import type { LoadListener } from '../bulk-load.js';
import { IMPORT_ERRORS_MAX, ImportErrorList } from './import-errors.js';
import { COPY_COLUMNS, copyLineOf } from './order-fields.js';
import { readCsv } from './read-csv.js';

/** Lines that are sent together. */
const BATCH_CHARACTERS = 32_768;

export interface OrderFile extends LoadListener {
  /** CSV. */
  readonly source: AsyncIterable<Buffer>;
}

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

/**
 * Copies the file into the stage and checks it against itself and the existing orders.
 * @throws {ImportRejected}
 */
export async function stageOrders(db: pg.ClientBase, file: OrderFile): Promise<number> {
  const errors = new ImportErrorList();
  await db.query(CREATE_STAGE);
  const copy = db.query(copyFrom(COPY_TO_STAGE));
  await pipeline(copyLines(file, errors), copy);
  await db.query('ANALYZE order_import');
  const { rows } = await db.query<{ line: string; problem: string }>(INVALID_IDS);
  for (const { line, problem } of rows) {
    errors.add({ line: Number(line), field: 'id', problem });
  }
  errors.throwIfAny();
  return copy.rowCount;
}

async function* copyLines({ source, onProgress }: OrderFile, errors: ImportErrorList): AsyncGenerator<string> {
  let [count, lines] = [0, ''];
  for await (const order of readCsv(source, errors)) {
    lines += copyLineOf(order, errors) ?? '';
    count++;
    if (lines.length >= BATCH_CHARACTERS) {
      yield lines;
      lines = '';
      onProgress?.(count);
    }
  }
  yield lines;
}
