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
 * The encoder reads ISO dates in UTC, whatever the database, the role or the URL ask for; so the transaction says so.
 */
const BEGIN_LIST =
  "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL timezone = 'UTC'; SET LOCAL datestyle = 'ISO, MDY'";

/** After this long without a word, at the start or between rows, the server or the network has fallen silent. Milliseconds. */
const RESPONSE_TIMEOUT_MS = 4_000;

/** How long a list waits for one of the places that `LIST_CONCURRENCY` allows. Milliseconds. */
const SLOT_TIMEOUT_MS = 1_000;

/** A list that has begun: its rows and the name of the state they show. */
export interface OpenOrderList {
  readonly snapshot: string;
  /** The bytes of the copy, cut anywhere; the first are there already. */
  readonly rows: AsyncIterable<Buffer>;
  /** Must be called once, with whether all rows were taken. A list given up closes its connection, which ends the scan. */
  close(complete: boolean): Promise<void>;
}

/** Opens lists: a bounded number at once, each on a connection of the list pool. */
@Injectable()
export class OrderListReader {
  readonly #places: Semaphore;

  constructor(
    private readonly pools: Pools,
    private readonly snapshots: SnapshotReader,
    @Inject(CONFIG) config: Config,
  ) {
    this.#places = new Semaphore(config.list.concurrency);
  }

  /**
   * Opens a list and reads its first bytes, so that a database that fails does so before an answer has begun.
   * @throws {DomainError} `service_unavailable` when too many lists are being read or the database is away
   */
  async open(): Promise<OpenOrderList> {
    if (!(await this.#places.acquireWithin(SLOT_TIMEOUT_MS))) {
      throw new DomainError(
        'service_unavailable',
        'Too many order lists are being read at once; try again in a moment.',
      );
    }
    try {
      return await databaseCall(() => this.#openOn());
    } catch (error) {
      this.#places.release();
      throw error;
    }
  }

  async #openOn(): Promise<OpenOrderList> {
    const client = await this.pools.list.connect();
    // The connection may break between two queries; whoever reads next is told, so nothing is to be done here.
    const ignore = (): void => undefined;
    client.on('error', ignore);
    const release = (broken: boolean): void => {
      client.off('error', ignore);
      client.release(broken);
    };
    try {
      // The name of the state and the rows have to come from the same snapshot.
      await withDeadline(client.query(BEGIN_LIST), RESPONSE_TIMEOUT_MS);
      const snapshot = await withDeadline(this.snapshots.ofTransaction(client), RESPONSE_TIMEOUT_MS);
      const copy = client.query(copyTo(COPY_ORDERS));
      // A failure reaches the iteration below; one that comes after the list was given up reaches nobody.
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
      // All rows were read: a connection lost now is only a connection to be replaced.
      broken = true;
    } finally {
      release(broken);
      this.#places.release();
    }
  }
}

async function* startingWith(first: IteratorResult<Buffer>, rest: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
  for (let next = first; next.done !== true; next = await withDeadline(rest.next(), RESPONSE_TIMEOUT_MS)) {
    yield next.value;
  }
}
