import { finished } from 'node:stream/promises';
import { Injectable } from '@nestjs/common';
import type { Pool, PoolClient, QueryResultRow } from 'pg';
import { withDeadline } from '../../common/deadline.js';
import { CopyOut } from '../../database/copy-out.js';
import { onlyRow } from '../../database/only-row.js';
import { Pools } from '../../database/pools.js';
import { isSchemaError } from '../../database/postgres-errors.js';
import { Metrics } from '../../metrics/metrics.js';
import { traced } from '../../tracing/tracing.js';
import { ORDER_COLUMNS } from '../order-columns.js';
import {
  type ListVersion,
  type NameRow,
  SELECT_NAME,
  SELECT_SUMS,
  type SumRow,
  sumsOf,
  versionOf,
} from './list-version.js';
import { ListVersions } from './list-versions.js';
import { BLOCK_IDS, type EncodedChunk, type OrderListEncoder } from './order-list-encoder.js';

/** How long the server may take for the next response, or the next order. Milliseconds. */
const RESPONSE_TIMEOUT_MS = 4_000;
/**
 * Shorter, so that the server ends the wait and no backend is left behind. A request may wait for a build that began before it, and then
 * for its own: in all less than proxies wait.
 */
const LOCK_TIMEOUT_MS = 2_000;

const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;

/** Plain columns as text are the cheapest thing that PostgreSQL can send, about a quarter of the cost of rows. */
const COLUMNS = ORDER_COLUMNS.map(({ column }) => column).join();

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
    private readonly metrics: Metrics,
  ) {}

  /** @throws {Error} of the database */
  async begin(isIntact = this.versions.isIntact): Promise<ListTransaction> {
    const client = await this.pools.list.connect();
    try {
      // The lock before the snapshot: after a rewrite of the table, an older snapshot would see an empty one.
      const begin = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS};
        LOCK TABLE orders IN ACCESS SHARE MODE; SAVEPOINT versions`;
      await withDeadline(client.query(begin), RESPONSE_TIMEOUT_MS);
      const row = isIntact ? onlyRow(await rowsOf<NameRow>(client, 'list_name', SELECT_NAME)) : undefined;
      const version = row && (await this.versions.check(row)) ? versionOf(row) : undefined;
      const children = version === undefined ? await childrenIn(client) : undefined;
      return new ListTransaction(client, this.pools.main, this.metrics, version, children);
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
    private readonly metrics: Metrics,
    /** The version that the snapshot shows; undefined when it has none. */
    readonly version: ListVersion | undefined,
    private readonly children: string | null | undefined,
  ) {}

  /**
   * Gives up the lock on the table of the versions. Call when the transaction waits for a client: VACUUM returns no pages of a table that
   * is locked, and each list and 304 would read them all. There are no sums afterwards: TRUNCATE empties the table for older snapshots, too.
   */
  async unlockVersions(): Promise<void> {
    await withDeadline(this.client.query('ROLLBACK TO SAVEPOINT versions'), RESPONSE_TIMEOUT_MS);
  }

  /**
   * The sums of the tokens of ranges of blocks, see {@link ListVersion.basis}.
   * @param starts the block that each range but the first begins with
   */
  async sums(starts: readonly number[]): Promise<readonly string[]> {
    return sumsOf(await rowsOf<SumRow>(this.client, 'list_sums', SELECT_SUMS, [starts]), starts.length + 1);
  }

  /**
   * The orders of some blocks, encoded. With a version, of one table only: a child that was attached after the snapshot must not be
   * read. Without, of all tables.
   * @param from the first block; undefined from the lowest id
   * @param to the first block that is not read; undefined up to the highest id
   * @throws {Error} after the last chunk, when a table may have been attached since the snapshot
   */
  async *orders(encoder: OrderListEncoder, from?: number, to?: number): AsyncGenerator<EncodedChunk, undefined> {
    const first = from === undefined ? INT64_MIN : BigInt(from) * BigInt(BLOCK_IDS);
    const last = to === undefined ? INT64_MAX : BigInt(to) * BigInt(BLOCK_IDS) - 1n;
    const rows =
      this.version === undefined ? 'orders' : `ONLY orders WHERE id BETWEEN '${first}'::bigint AND '${last}'::bigint`;
    const copy = this.client.query(new CopyOut(`COPY (SELECT ${COLUMNS} FROM ${rows} ORDER BY id) TO STDOUT`, encoder));
    // Its error is thrown where the chunks are read.
    traced({ operation: 'COPY', table: 'orders' }, () => finished(copy)).catch(() => undefined);
    const chunks = copy[Symbol.asyncIterator]() as AsyncIterator<EncodedChunk, undefined>;
    for (let next = await nextOf(copy, chunks); next.done !== true; next = await nextOf(copy, chunks)) {
      this.metrics.listRows.inc(next.value.rows);
      this.metrics.listPieces.labels('database').inc(next.value.block === undefined ? 0 : 1);
      yield next.value;
    }
    // What has been read is locked, so it is still attached.
    if (this.version === undefined && (await childrenIn(this.main)) !== this.children) {
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
}

/** The next chunk, as long as its orders arrive: a slow disk or network may take long for all of them. */
async function nextOf<T>(copy: CopyOut<T>, chunks: AsyncIterator<T, undefined>): Promise<IteratorResult<T, undefined>> {
  const next = chunks.next();
  for (;;) {
    const { rows } = copy;
    try {
      return await withDeadline(next, RESPONSE_TIMEOUT_MS);
    } catch (error) {
      if (copy.destroyed || copy.rows === rows) {
        throw error;
      }
    }
  }
}

/** Runs a statement with a deadline. */
async function rowsOf<T extends QueryResultRow>(
  db: Pool | PoolClient,
  name: string,
  text: string,
  values: unknown[] = [],
): Promise<T[]> {
  const { rows } = await withDeadline(db.query<T>({ name, text, values }), RESPONSE_TIMEOUT_MS);
  return rows;
}

async function childrenIn(db: Pool | PoolClient): Promise<string | null> {
  const rows = await rowsOf<{ children: string | null }>(db, 'list_children', SELECT_CHILDREN);
  return onlyRow(rows).children;
}
