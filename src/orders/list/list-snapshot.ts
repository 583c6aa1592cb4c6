import type { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { Injectable } from '@nestjs/common';
import type { Pool, PoolClient } from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import { Pools } from '../../database/pools.js';
import { connectionError } from '../../database/postgres-errors.js';
import { Metrics } from '../../metrics/metrics.js';
import { traced } from '../../tracing/tracing.js';
import type { BlockRange } from './list-image.js';
import { type ListVersion, SELECT_SUMS, type SumRow, sumsOf } from './list-version.js';
import { BLOCK_IDS, type EncodedChunk, OrderEncoder, SELECTED } from './order-encoder.js';
import { VersionReader } from './version-reader.js';

/** How long the server may take for a statement other than COPY. Milliseconds. */
const QUERY_TIMEOUT_MS = 4_000;
/** How long it may send no orders while an image is read. Milliseconds. */
const IDLE_TIMEOUT_MS = 10_000;
/** Shorter, so that the server ends the wait and no backend is left behind. Milliseconds. */
const LOCK_TIMEOUT_MS = 2_000;

const BEGIN = {
  // The lock before the snapshot: after a rewrite of the table, an older snapshot would see an empty one.
  text: `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS};
    LOCK TABLE orders IN ACCESS SHARE MODE`,
  query_timeout: QUERY_TIMEOUT_MS,
};
const COMMIT = { text: 'COMMIT', query_timeout: QUERY_TIMEOUT_MS };

/** Opens snapshots of the list. */
@Injectable()
export class ListSnapshots {
  constructor(
    private readonly pools: Pools,
    private readonly versions: VersionReader,
    private readonly metrics: Metrics,
  ) {}

  /** For a list that is streamed. @throws {Error} of the database */
  forStream(): Promise<ListSnapshot> {
    return this.#open(this.pools.list, undefined);
  }

  /** For an image, on a connection that no stream takes. @throws {Error} of the database */
  forImage(): Promise<ListSnapshot> {
    return this.#open(this.pools.image, IDLE_TIMEOUT_MS);
  }

  async #open(pool: Pool, idleMs: number | undefined): Promise<ListSnapshot> {
    const client = await pool.connect();
    try {
      await client.query(BEGIN);
      return new ListSnapshot(client, await this.versions.read(client), this.metrics, idleMs);
    } catch (error) {
      client.release(true);
      throw error;
    }
  }
}

/** One snapshot of the list on one connection. */
export class ListSnapshot {
  #copy: Readable | undefined;

  /**
   * @param version undefined when the list has none
   * @param idleMs how long the server may send no orders; by default without a limit, because a stream waits for its client
   */
  constructor(
    private readonly client: PoolClient,
    readonly version: ListVersion | undefined,
    private readonly metrics: Metrics,
    private readonly idleMs: number | undefined,
  ) {}

  /**
   * The sums of the tokens of ranges of blocks, see {@link ListVersion.basis}.
   * @param starts the block that each range but the first begins with
   */
  async sums(starts: readonly number[]): Promise<readonly string[]> {
    const query = { name: 'list_sums', text: SELECT_SUMS, values: [starts], query_timeout: QUERY_TIMEOUT_MS };
    return sumsOf((await this.client.query<SumRow>(query)).rows, starts.length + 1);
  }

  /**
   * The orders of some blocks, encoded; with a version those of one table only, because a child may have been attached since the snapshot.
   * @throws {TypeError} that names an order which cannot be listed
   */
  async *orders(encoder: OrderEncoder, { from, to }: BlockRange = {}): AsyncGenerator<EncodedChunk, undefined> {
    const table = this.version === undefined ? 'orders' : 'ONLY orders';
    const bounds = [
      ...(from === undefined ? [] : [`orders.id >= ${firstIdOf(from)}`]),
      ...(to === undefined ? [] : [`orders.id < ${firstIdOf(to)}`]),
    ];
    const where = bounds.length === 0 ? '' : `WHERE ${bounds.join(' AND ')}`;
    const copy = this.client.query(
      copyTo(`COPY (SELECT ${SELECTED} FROM ${table} ${where} ORDER BY orders.id) TO STDOUT`),
    );
    this.#copy = copy;
    // Thrown where it is read; the connection may be lost afterwards.
    copy.on('error', () => undefined);
    traced({ operation: 'COPY', table: 'orders' }, () => finished(copy)).catch(() => undefined);
    const idle =
      this.idleMs === undefined
        ? undefined
        : setTimeout(() => this.abort(new Error('PostgreSQL sends no orders.')), this.idleMs);
    try {
      for await (const lines of copy) {
        idle?.refresh();
        for (const chunk of encoder.add(lines as Buffer)) {
          yield this.#counted(chunk);
        }
      }
      for (const chunk of encoder.end()) {
        yield this.#counted(chunk);
      }
    } catch (error) {
      throw connectionError(error);
    } finally {
      clearTimeout(idle);
    }
  }

  /** Ends {@link orders} with an error, also while it waits for the server. */
  abort(reason: Error): void {
    this.#copy?.destroy(reason);
  }

  #counted(chunk: EncodedChunk): EncodedChunk {
    this.metrics.listRows.inc(chunk.rows);
    this.metrics.listPieces.labels('database').inc(chunk.block === undefined ? 0 : 1);
    return chunk;
  }

  /** Call once. Ends {@link orders} that have not been read to their end, with the connection. */
  async close(): Promise<void> {
    const isReading = this.#copy?.readableEnded === false;
    const commit = isReading ? undefined : this.client.query(COMMIT);
    // A connection that cannot commit is only replaced.
    const [{ status }] = await Promise.allSettled([commit]);
    this.client.release(isReading || status === 'rejected');
  }
}

function firstIdOf(block: number): string {
  return `'${BigInt(block) * BigInt(BLOCK_IDS)}'::bigint`;
}
