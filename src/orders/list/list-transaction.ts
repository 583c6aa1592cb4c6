import { Injectable } from '@nestjs/common';
import type { Pool, PoolClient, QueryResultRow } from 'pg';
import { withDeadline } from '../../common/deadline.js';
import { freeBuffer } from '../../common/free-buffer.js';
import { type CopiedRows, CopyOut } from '../../database/copy-out.js';
import { Pools } from '../../database/pools.js';
import { isSchemaError } from '../../database/postgres-errors.js';
import { onlyRow } from '../../database/only-row.js';
import type { ListVersion, Piece } from './list-version.js';
import { ListVersions, type Query } from './list-versions.js';

/** How long the server may take for the next response. Milliseconds. */
const RESPONSE_TIMEOUT_MS = 4_000;

/**
 * Locks the table before the transaction takes its snapshot: after a rewrite of the table, an older snapshot would see an
 * empty table.
 */
const BEGIN = 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; LOCK TABLE orders IN ACCESS SHARE MODE';

/** Plain columns as text are the cheapest thing that PostgreSQL can send, about a quarter of the cost of rows. */
const COLUMNS = 'id, pet_id, quantity, ship_date, complete';

/** The tables that a list of the whole table reads, each with the transaction that attached it to its parent, and its file. */
const SELECT_CHILDREN = `
  WITH RECURSIVE child AS (
    SELECT inherits.xmin, inhrelid, inhparent FROM pg_inherits AS inherits JOIN pg_class ON pg_class.oid = inhparent
    WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'public') AND relname = 'orders'
    UNION ALL
    SELECT inherits.xmin, inherits.inhrelid, inherits.inhparent FROM pg_inherits AS inherits JOIN child ON inherits.inhparent = child.inhrelid
  )
  SELECT string_agg(concat_ws(' ', inhrelid, inhparent, child.xmin, relfilenode), ',' ORDER BY inhrelid, inhparent) AS children
  FROM child JOIN pg_class ON pg_class.oid = inhrelid`;

/** Opens transactions for lists. */
@Injectable()
export class ListTransactions {
  constructor(
    private readonly pools: Pools,
    private readonly versions: ListVersions,
  ) {}

  /**
   * @param isIntact whether the list had a version just now
   * @throws {Error} of the database
   */
  async begin(isIntact: boolean): Promise<ListTransaction> {
    const client = await this.pools.list.connect();
    try {
      await withDeadline(client.query(BEGIN), RESPONSE_TIMEOUT_MS);
      const query = queryOn(client);
      const version = isIntact ? await this.versions.inTransaction(query) : undefined;
      const children = version === undefined ? await childrenIn(query) : undefined;
      return new ListTransaction(client, this.pools.main, version, children);
    } catch (error) {
      client.release(true);
      // The tables have changed since; a list of the whole table names fewer of them.
      if (isIntact && isSchemaError(error)) {
        return this.begin(false);
      }
      throw error;
    }
  }
}

/** One snapshot of the list on one connection of the list pool. */
export class ListTransaction {
  /** @param children the child tables that the snapshot shows */
  constructor(
    private readonly client: PoolClient,
    private readonly main: Pool,
    /** The version that the snapshot shows; undefined when it has none. */
    readonly version: ListVersion | undefined,
    private readonly children: string | null | undefined,
  ) {}

  /**
   * The orders of some pieces as {@link CopyOut} returns them, in the text format; an empty chunk ends each piece. A chunk is valid
   * until the next one is asked for. Child tables that were attached after the snapshot must not be read, hence ONLY.
   */
  copyPieces(pieces: readonly Piece[]): AsyncGenerator<Buffer> {
    return this.#copy(
      pieces.map(
        ({ first, last }) => `SELECT ${COLUMNS} FROM ONLY orders WHERE id BETWEEN ${first} AND ${last} ORDER BY id`,
      ),
    );
  }

  /**
   * All orders, in the same form. A child table that is attached after the snapshot may be read, too.
   * @throws {Error} after the last chunk, when that may have happened
   */
  async *copyAll(): AsyncGenerator<Buffer> {
    yield* this.#copy([`SELECT ${COLUMNS} FROM orders ORDER BY id`]);
    // What has been read is locked, so it is still attached.
    const now = await childrenIn(queryOn(this.main));
    if (now !== this.children) {
      throw new Error('The tables of the order list have changed while it was read.');
    }
  }

  /** Call once. @param isComplete false closes the connection, which ends a scan */
  async end(isComplete: boolean): Promise<void> {
    const commit = isComplete ? withDeadline(this.client.query('COMMIT'), RESPONSE_TIMEOUT_MS) : undefined;
    // All rows were read, so a connection that cannot commit is only replaced.
    const [{ status }] = await Promise.allSettled([commit]);
    this.client.release(!isComplete || status === 'rejected');
  }

  async *#copy(queries: readonly string[]): AsyncGenerator<Buffer> {
    const copy = this.client.query(new CopyOut(queries.map((query) => `COPY (${query}) TO STDOUT`)));
    const chunks = copy[Symbol.asyncIterator]() as AsyncIterator<CopiedRows, undefined>;
    for (;;) {
      const { value } = await withDeadline(chunks.next(), RESPONSE_TIMEOUT_MS);
      if (value === undefined) {
        return;
      }
      yield value.rows;
      if (value.received !== undefined) {
        freeBuffer(value.received);
      }
    }
  }
}

/** Runs statements of one row with a deadline. */
function queryOn(db: Pool | PoolClient): Query {
  return async <T extends QueryResultRow>(name: string, text: string, values: readonly unknown[] = []) => {
    const statement = { name, text, values: [...values] };
    const { rows } = await withDeadline(db.query<T>(statement), RESPONSE_TIMEOUT_MS);
    return onlyRow(rows);
  };
}

async function childrenIn(query: Query): Promise<string | null> {
  const { children } = await query<{ children: string | null }>('list_children', SELECT_CHILDREN);
  return children;
}
