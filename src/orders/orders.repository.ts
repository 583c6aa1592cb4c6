import { Inject, Injectable } from '@nestjs/common';
import { databaseCall } from '../database/postgres-errors.js';
import { Pools } from '../database/pools.js';
import { TRACING, type Tracing } from '../tracing/tracing.js';
import { type CancelOutcome, type OrderStatus, outcomeFrom } from './cancellation.js';

/** `locked`: somebody else holds the row, so nothing is known about it yet. */
export type CancelAttempt = CancelOutcome | 'locked';

/** An order as a statement left it: `pending` when the statement has just cancelled it. */
interface CancelRow {
  readonly id: string;
  readonly status: OrderStatus;
}

// Named, so that PostgreSQL keeps them prepared for the connection.

/** Says no more than whether it cancelled the order, and costs less than the statement for many. */
const CANCEL_ONE_PENDING = {
  name: 'cancel_one_pending',
  text: `
    UPDATE orders SET status = 'cancelled', cancelled_at = now()
    WHERE id = (SELECT id FROM orders WHERE id = $1 AND status = 'pending' FOR NO KEY UPDATE SKIP LOCKED)
      AND status = 'pending'`,
};

const CANCEL_UNLOCKED = {
  name: 'cancel_unlocked',
  text: cancelStatement('SELECT id, status FROM orders WHERE id = ANY($1::bigint[]) FOR NO KEY UPDATE SKIP LOCKED'),
};

const CANCEL_WAITING = {
  name: 'cancel_waiting',
  text: cancelStatement('SELECT id, status FROM orders WHERE id = $1 FOR NO KEY UPDATE'),
};

const PRESENT = { name: 'present_orders', text: 'SELECT id FROM orders WHERE id = ANY($1::bigint[])' };

/**
 * Changes those of the locked orders that are pending, and says of each what it was when it was locked. The lock is the one
 * that the update takes itself. An order that is pending and yet not changed cannot be; it would be left out.
 */
function cancelStatement(locked: string): string {
  return `
    WITH locked AS MATERIALIZED (${locked}), changed AS (
      UPDATE orders SET status = 'cancelled', cancelled_at = now()
      FROM locked WHERE orders.id = locked.id AND locked.status = 'pending' AND orders.status = 'pending'
      RETURNING orders.id
    )
    SELECT id, 'pending' AS status FROM changed
    UNION ALL SELECT id, status::text FROM locked WHERE status <> 'pending'`;
}

/**
 * Asks the pool directly: what Prisma does around a statement takes as long as the statement. See docs/decisions/0002.
 */
@Injectable()
export class OrdersRepository {
  constructor(
    private readonly pools: Pools,
    @Inject(TRACING) private readonly tracing: Pick<Tracing, 'statement'>,
  ) {}

  /**
   * Cancels those of the orders that are pending, in one statement and one transaction; a lone order first by a statement of
   * its own.
   *
   * The rows are locked before they are judged, so the status is the latest committed one: without the lock the statement
   * would report what its snapshot saw, and a shipment that commits meanwhile would go unnoticed. Rows that somebody else
   * holds are skipped, never waited for: one slow writer cannot stall the whole batch, and two batches that share orders
   * cannot deadlock.
   *
   * @param ids without repetition
   * @throws {DomainError} `service_unavailable`
   */
  async cancelUnlocked(ids: readonly bigint[]): Promise<Map<bigint, CancelAttempt>> {
    const [first] = ids;
    if (first !== undefined && ids.length === 1 && (await this.#cancelPending(first))) {
      return new Map([[first, 'cancelled']]);
    }
    const { rows } = await this.#update(ids.length, () =>
      this.pools.main.query<CancelRow>({ ...CANCEL_UNLOCKED, values: [arrayOf(ids)] }),
    );
    const attempts = new Map<bigint, CancelAttempt>(rows.map(({ id, status }) => [BigInt(id), outcomeFrom(status)]));
    for (const id of await this.#present(ids.filter((wanted) => !attempts.has(wanted)))) {
      attempts.set(id, 'locked');
    }
    return attempts;
  }

  /**
   * Cancels one order if it is pending, waiting for its row as long as the pool's `lock_timeout` allows.
   * @throws {DomainError} `service_unavailable`, also when the row stays locked
   */
  async cancelWaiting(id: bigint): Promise<CancelOutcome> {
    const { rows } = await this.#update(1, () => this.pools.main.query<CancelRow>({ ...CANCEL_WAITING, values: [id] }));
    return rows[0] === undefined ? 'not_found' : outcomeFrom(rows[0].status);
  }

  async #cancelPending(id: bigint): Promise<boolean> {
    const { rowCount } = await this.#update(1, () => this.pools.main.query({ ...CANCEL_ONE_PENDING, values: [id] }));
    return rowCount === 1;
  }

  /**
   * Which of the orders that were not locked exist. All of them, if it cannot be found out: the others of the batch have
   * been cancelled, and whoever waits for these will be told what is wrong.
   */
  async #present(ids: readonly bigint[]): Promise<readonly bigint[]> {
    if (ids.length === 0) {
      return [];
    }
    try {
      const { rows } = await this.pools.main.query<{ id: string }>({ ...PRESENT, values: [arrayOf(ids)] });
      return rows.map(({ id }) => BigInt(id));
    } catch {
      return ids;
    }
  }

  #update<T>(batchSize: number, statement: () => PromiseLike<T>): Promise<T> {
    return this.tracing.statement({ operation: 'UPDATE', table: 'orders', batchSize }, () => databaseCall(statement));
  }
}

/** A PostgreSQL array, as it is written. */
function arrayOf(ids: readonly bigint[]): string {
  return `{${ids.join()}}`;
}
