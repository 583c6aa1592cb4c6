import { Inject, Injectable } from '@nestjs/common';
import type { PoolClient } from 'pg';
import { withDeadline } from '../../common/deadline.js';
import { Semaphore } from '../../common/semaphore.js';
import { CONFIG, type Config } from '../../config/config.js';
import { CopyOut } from '../../database/copy-out.js';
import type { ListPools } from '../../database/pools.js';
import { DomainError } from '../../errors/domain-error.js';
import { type BlockVersionsRow, type ListVersion, parseListVersion, SELECT_BLOCK_VERSIONS } from './list-version.js';

/** How long the server may take for the next response. Milliseconds. */
const RESPONSE_TIMEOUT_MS = 4_000;
/** How long a list waits for one of the slots that `LIST_CONCURRENCY` allows. Milliseconds. */
const SLOT_TIMEOUT_MS = 1_000;

/**
 * Locks the table before the transaction takes its snapshot: after a rewrite of the table, an older snapshot would see an
 * empty table.
 */
const BEGIN = 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY';
const LOCK_TABLE = 'LOCK TABLE orders IN ACCESS SHARE MODE';

/** The table is locked by then, so its size can be read without a wait. */
const SELECT_VERSIONS = `SELECT versions.*, pg_table_size('orders')::text AS bytes FROM (${SELECT_BLOCK_VERSIONS}) AS versions`;

/** Plain columns as text are the cheapest thing that PostgreSQL can send, about a quarter of the cost of rows. */
const COLUMNS = 'id, pet_id, quantity, ship_date, complete';

/** One snapshot of the list on one connection of the list pool. */
export interface ListTransaction {
  /** The versions that the snapshot shows. */
  readonly version: ListVersion;
  /** Size of the table, including what updates and deletes have left in it. */
  readonly tableBytes: number;
  /**
   * The orders from one id to another in the text format of COPY, in chunks that may end anywhere. A chunk is valid until
   * the next one is asked for.
   */
  copy(firstId: string, lastId: string): AsyncIterable<Buffer>;
  /** Ends the transaction and releases the slot; call once. @param complete false closes the connection, which ends a scan */
  end(complete: boolean): Promise<void>;
}

/** Opens transactions for lists: at most `LIST_CONCURRENCY` at once. */
@Injectable()
export class ListTransactions {
  readonly #slots: Semaphore;

  constructor(@Inject(CONFIG) config: Config) {
    this.#slots = new Semaphore(config.list.concurrency);
  }

  /**
   * Waits for a slot. Then call {@link begin}, which releases it when it fails or its transaction ends, or {@link release}.
   * @throws {DomainError} `service_unavailable` when none is free within the slot timeout
   */
  async acquire(): Promise<void> {
    if (!(await this.#slots.acquireWithin(SLOT_TIMEOUT_MS))) {
      throw new DomainError('service_unavailable', 'Too many order lists are being read; retry shortly.');
    }
  }

  release(): void {
    this.#slots.release();
  }

  /** @throws {Error} of the database */
  async begin(server: ListPools): Promise<ListTransaction> {
    try {
      return await this.#begin(server);
    } catch (error) {
      this.release();
      throw error;
    }
  }

  async #begin({ list, listSettings }: ListPools): Promise<ListTransaction> {
    const client = await list.connect();
    try {
      await withDeadline(client.query([BEGIN, ...listSettings, LOCK_TABLE].join('; ')), RESPONSE_TIMEOUT_MS);
      const { rows } = await withDeadline(
        client.query<BlockVersionsRow & { bytes: string }>(SELECT_VERSIONS),
        RESPONSE_TIMEOUT_MS,
      );
      const [row] = rows;
      if (row === undefined) {
        throw new Error('The versions of the order list are missing.');
      }
      return {
        version: parseListVersion(row),
        tableBytes: Number(row.bytes),
        copy: (firstId, lastId) => copyOrders(client, firstId, lastId),
        end: (complete) => this.#end(client, complete),
      };
    } catch (error) {
      client.release(true);
      throw error;
    }
  }

  async #end(client: PoolClient, complete: boolean): Promise<void> {
    let broken = !complete;
    try {
      if (complete) {
        await withDeadline(client.query('COMMIT'), RESPONSE_TIMEOUT_MS);
      }
    } catch {
      // All rows were read: the connection is replaced.
      broken = true;
    } finally {
      client.release(broken);
      this.release();
    }
  }
}

async function* copyOrders(client: PoolClient, firstId: string, lastId: string): AsyncGenerator<Buffer> {
  const copy = client.query(
    new CopyOut(`COPY (SELECT ${COLUMNS} FROM orders WHERE id BETWEEN ${firstId} AND ${lastId} ORDER BY id) TO STDOUT`),
  );
  for (;;) {
    const rows = await withDeadline(copy.next(), RESPONSE_TIMEOUT_MS);
    if (rows === undefined) {
      return;
    }
    yield rows;
  }
}
