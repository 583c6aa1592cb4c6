import { Inject, Injectable } from '@nestjs/common';
import type { PoolClient } from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import { CONFIG, type Config } from '../config/config.js';
import { DomainError } from '../errors/domain-error.js';
import { withDeadline } from '../common/deadline.js';
import { databaseCall } from '../database/postgres-errors.js';
import { Pools } from '../database/pools.js';
import { Semaphore } from '../common/semaphore.js';
import { SnapshotReader } from './snapshot.reader.js';

/**
 * All orders from one snapshot, as text: plain columns in a COPY are the cheapest thing that PostgreSQL can send, about
 * a quarter of the cost of rows (`docs/decisions/`).
 */
const COPY_ORDERS = 'COPY (SELECT id, pet_id, quantity, ship_date, complete FROM orders ORDER BY id) TO STDOUT';

/**
 * The lock comes before the snapshot, which the first query takes. TRUNCATE and rewrites by ALTER TABLE are not MVCC-safe:
 * a list that waited for one of them with an older snapshot would see an empty table.
 */
const BEGIN_LIST = 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; LOCK TABLE orders IN ACCESS SHARE MODE';

/**
 * How long the server may send nothing, at the start or between rows; longer than the pool's `lock_timeout`. Milliseconds.
 */
const RESPONSE_TIMEOUT_MS = 4_000;

/** How long a list waits for one of the slots that `LIST_CONCURRENCY` allows. Milliseconds. */
const SLOT_TIMEOUT_MS = 1_000;

/** A list that has started: its rows and the name of the snapshot that they show. */
export interface OpenOrderList {
  readonly snapshot: string;
  /** The bytes of the copy in chunks of any size; the first chunk has been read. */
  readonly rows: AsyncIterable<Buffer>;
  /** Must be called once. Unless all rows were read, it closes the connection, which ends the scan. */
  close(complete: boolean): Promise<void>;
}

/** Opens lists: a bounded number at once, each on a connection of the list pool. */
@Injectable()
export class OrderListReader {
  readonly #slots: Semaphore;

  constructor(
    private readonly pools: Pools,
    private readonly snapshots: SnapshotReader,
    @Inject(CONFIG) config: Config,
  ) {
    this.#slots = new Semaphore(config.list.concurrency);
  }

  /**
   * Opens a list and reads its first bytes, so that a database error comes before the response has started.
   * @throws {DomainError} `service_unavailable` when no slot is free or the database is unavailable
   */
  async open(): Promise<OpenOrderList> {
    if (!(await this.#slots.acquireWithin(SLOT_TIMEOUT_MS))) {
      throw new DomainError('service_unavailable', 'Too many order lists are being read; retry shortly.');
    }
    try {
      return await databaseCall(() => this.#openOn());
    } catch (error) {
      this.#slots.release();
      throw error;
    }
  }

  async #openOn(): Promise<OpenOrderList> {
    const client = await this.pools.list.connect();
    // A connection that breaks between two queries fails the next one.
    const ignore = (): void => undefined;
    client.on('error', ignore);
    const release = (broken: boolean): void => {
      client.off('error', ignore);
      client.release(broken);
    };
    try {
      await withDeadline(client.query(BEGIN_LIST), RESPONSE_TIMEOUT_MS);
      const snapshot = await withDeadline(this.snapshots.ofTransaction(client), RESPONSE_TIMEOUT_MS);
      const copy = client.query(copyTo(COPY_ORDERS));
      // Errors reach the iteration below.
      copy.on('error', ignore);
      const rows = copy[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
      const first = await withDeadline(rows.next(), RESPONSE_TIMEOUT_MS);
      return { snapshot, rows: startingWith(first, rows), close: (complete) => this.#close(client, complete, release) };
    } catch (error) {
      release(true);
      throw error;
    }
  }

  async #close(client: PoolClient, complete: boolean, release: (broken: boolean) => void): Promise<void> {
    let broken = !complete;
    try {
      if (complete) {
        await withDeadline(client.query('COMMIT'), RESPONSE_TIMEOUT_MS);
      }
    } catch {
      // All rows were read: the connection is replaced.
      broken = true;
    } finally {
      release(broken);
      this.#slots.release();
    }
  }
}

async function* startingWith(first: IteratorResult<Buffer>, rest: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
  for (let next = first; next.done !== true; next = await withDeadline(rest.next(), RESPONSE_TIMEOUT_MS)) {
    yield next.value;
  }
}
