import type pg from 'pg';
import { asError } from '../../common/as-error.js';
import { LOCK_NOT_AVAILABLE, sqlStateOf } from '../../database/postgres-errors.js';
import { analyzeOrders, raiseOrderSequence, SEQUENCE_END } from '../bulk-load.js';
import { ImportRejected } from './import-errors.js';
import { checkIds, type OrderFile, stageOrders } from './stage-orders.js';

const UNIQUE_VIOLATION = '23505';
const SEQUENCE_GENERATOR_LIMIT_EXCEEDED = '2200H';

const LOCK_TIMEOUT_MESSAGE =
  'Another transaction locks the table orders or is inserting an order with an id of the file; nothing was imported. ' +
  'Retry when it has ended.';

export interface ImportOptions extends OrderFile {
  /** Checks everything, also against the existing orders, and changes nothing. */
  readonly dryRun: boolean;
  /** Accepts a file without orders; otherwise it is an error, because the program that writes it may have failed. */
  readonly allowEmpty?: boolean;
}

/** Each statement sees what others have committed, whatever the role's default isolation level is. */
const BEGIN = 'BEGIN ISOLATION LEVEL READ COMMITTED';

/** One import at a time, by an advisory lock: it conflicts with other imports only, not with VACUUM or index builds. */
const LOCK_OUT_OTHER_IMPORTS = 'SELECT pg_advisory_xact_lock(482871112564)';

const HIGHEST_ID = `SELECT max(id) AS id FROM order_import WHERE id < ${SEQUENCE_END}`;

const COLUMNS = 'pet_id, quantity, ship_date, complete, status, cancelled_at';

/** By id, so that the rows lie in the order in which the list reads them. */
const INSERT_WITH_ID = `
  INSERT INTO orders (id, ${COLUMNS}) SELECT id, ${COLUMNS} FROM order_import WHERE id IS NOT NULL ORDER BY id`;

/** Rows without an id get ids in the order of the file. */
const INSERT_WITHOUT_ID = `
  INSERT INTO orders (${COLUMNS}) SELECT ${COLUMNS} FROM order_import WHERE id IS NULL ORDER BY line`;
const FIRST_WITHOUT_ID = 'SELECT line FROM order_import WHERE id IS NULL ORDER BY line LIMIT 1';

/**
 * Imports a file of orders in one transaction: all of them or none. Memory use does not depend on the size of the file.
 * @param db a connection outside a transaction; its `lock_timeout` bounds the waits
 * @returns the number of orders in the file
 * @throws {ImportRejected} with the invalid lines and fields
 */
export async function importOrders(db: pg.ClientBase, options: ImportOptions): Promise<number> {
  await db.query(BEGIN);
  let count: number;
  try {
    if (!options.dryRun) {
      await lockOutOtherImports(db);
    }
    count = await stageOrders(db, options);
    options.signal?.throwIfAborted();
    if (count === 0 && options.allowEmpty !== true) {
      throw new Error('The file has no orders. Check what wrote it, or pass --allow-empty.');
    }
    if (options.dryRun) {
      await db.query('ROLLBACK');
      return count;
    }
    await insertStaged(db);
    options.signal?.throwIfAborted();
    options.onCommit?.();
    await commit(db);
  } catch (error) {
    // After a lost connection the server rolls back by itself; the first error is the one to report.
    await db.query('ROLLBACK').catch(() => undefined);
    throw sqlStateOf(error) === LOCK_NOT_AVAILABLE ? new Error(LOCK_TIMEOUT_MESSAGE, { cause: error }) : error;
  }
  await analyzeOrders(db, options.onWarning);
  return count;
}

async function lockOutOtherImports(db: pg.ClientBase): Promise<void> {
  try {
    await db.query(LOCK_OUT_OTHER_IMPORTS);
  } catch (error) {
    throw sqlStateOf(error) === LOCK_NOT_AVAILABLE
      ? new Error('Another import is running; nothing was imported. Retry when it has ended.', { cause: error })
      : error;
  }
}

async function insertStaged(db: pg.ClientBase): Promise<void> {
  const { rows } = await db.query<{ id: string | null }>(HIGHEST_ID);
  await raiseOrderSequence(db, rows[0]?.id ?? null);
  await db.query('SAVEPOINT staged');
  try {
    await db.query(INSERT_WITH_ID);
    await db.query(INSERT_WITHOUT_ID);
  } catch (error) {
    if ([UNIQUE_VIOLATION, SEQUENCE_GENERATOR_LIMIT_EXCEEDED].includes(sqlStateOf(error) ?? '')) {
      // An order with an id of the file was inserted after the check: checking again finds its line.
      await db.query('ROLLBACK TO SAVEPOINT staged');
      await checkIds(db);
      await checkMissingIds(db);
    }
    throw error;
  }
}

/** The ids of the file are free, so the sequence has met others. It does not pass ids near its end. */
async function checkMissingIds(db: pg.ClientBase): Promise<void> {
  const { rows } = await db.query<{ line: string }>(FIRST_WITHOUT_ID);
  const problem = 'must be given, here and in the lines that follow: the ids after the highest one are in use';
  if (rows[0] !== undefined) {
    throw new ImportRejected([{ line: Number(rows[0].line), field: 'id', problem }]);
  }
}

/** @throws {Error} that says so when the connection is lost before PostgreSQL has confirmed or rejected the commit */
async function commit(db: pg.ClientBase): Promise<void> {
  try {
    await db.query('COMMIT');
  } catch (error) {
    // Errors of these classes end the connection.
    const isConfirmed = !/^(?:08|57|58)/.test(sqlStateOf(error) ?? '08');
    throw isConfirmed
      ? error
      : new Error(
          `The connection was lost during COMMIT (${asError(error).message}): the orders may or may not have been imported. ` +
            'Check whether orders of the file exist before importing it again.',
          { cause: error },
        );
  }
}
