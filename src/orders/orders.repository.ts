import { Inject, Injectable } from '@nestjs/common';
import { databaseCall } from '../prisma/database-call.js';
import { Pools } from '../prisma/pools.js';
import { PrismaService } from '../prisma/prisma.service.js';
import { TRACING, type Tracing } from '../tracing/tracing.js';
import { type CancelOutcome, type OrderStatus, outcomeFrom } from './cancellation.js';

/** `locked`: somebody else holds the row, so nothing is known about it yet. */
export type CancelAttempt = CancelOutcome | 'locked';

interface CancelRow {
  readonly id: bigint;
  readonly status: OrderStatus | null;
  readonly cancelled: boolean;
  readonly present: boolean;
}

/** Named, so that PostgreSQL keeps it prepared for the connection. */
const CANCEL_PENDING = {
  name: 'cancel_pending',
  text: `
    UPDATE orders SET status = 'cancelled', cancelled_at = now()
    WHERE id = (SELECT id FROM orders WHERE id = $1 AND status = 'pending' FOR UPDATE SKIP LOCKED)
      AND status = 'pending'`,
};

@Injectable()
export class OrdersRepository {
  constructor(
    private readonly prisma: PrismaService,
    private readonly pools: Pools,
    @Inject(TRACING) private readonly tracing: Pick<Tracing, 'statement'>,
  ) {}

  /**
   * Cancels those of the orders that are pending, in one statement and one transaction; a lone order first by a statement of
   * its own, which says less and costs less.
   *
   * The rows are locked before they are judged, so the status is the latest committed one: without `FOR UPDATE` the
   * statement would report what its snapshot saw, and a shipment that commits meanwhile would go unnoticed. Rows that
   * somebody else holds are skipped, never waited for: one slow writer cannot stall the whole batch, and two batches
   * that share orders cannot deadlock. `present` is read only for rows that were not locked and tells a skipped row
   * from one that does not exist.
   *
   * @param ids without repetition
   * @throws {DomainError} `service_unavailable`
   */
  async cancelUnlocked(ids: readonly bigint[]): Promise<Map<bigint, CancelAttempt>> {
    const [id, ...others] = ids;
    if (id !== undefined && others.length === 0 && (await this.#cancelPending(id))) {
      return new Map([[id, 'cancelled']]);
    }
    const rows = await this.#update(
      ids.length,
      () => this.prisma.$queryRaw<CancelRow[]>`
        WITH locked AS MATERIALIZED (
          SELECT id, status FROM orders WHERE id = ANY(${ids}::bigint[]) FOR UPDATE SKIP LOCKED
        ), changed AS (
          UPDATE orders SET status = 'cancelled', cancelled_at = now()
          FROM locked WHERE orders.id = locked.id AND locked.status = 'pending' AND orders.status = 'pending'
          RETURNING orders.id
        )
        SELECT wanted.id, locked.status::text AS status, changed.id IS NOT NULL AS cancelled,
               locked.id IS NOT NULL OR EXISTS (SELECT FROM orders WHERE orders.id = wanted.id) AS present
        FROM unnest(${ids}::bigint[]) AS wanted (id) LEFT JOIN locked USING (id) LEFT JOIN changed USING (id)`,
    );
    return new Map(rows.map((row) => [row.id, attemptOf(row)]));
  }

  /**
   * Cancels one order if it is pending and nobody else holds it, and says no more than whether it did.
   *
   * A cancel that comes alone is all latency: PostgreSQL keeps the plan of this statement (the one for many is planned
   * anew each time, for as many orders as it is about), and it goes to the pool directly, because what Prisma does around
   * a statement takes as long as the statement. See docs/decisions/0002.
   */
  async #cancelPending(id: bigint): Promise<boolean> {
    const { rowCount } = await this.#update(1, () => this.pools.main.query({ ...CANCEL_PENDING, values: [id] }));
    return rowCount === 1;
  }

  /**
   * Cancels one order if it is pending, waiting for its row as long as the pool's `lock_timeout` allows.
   * @throws {DomainError} `service_unavailable`, also when the row stays locked
   */
  async cancelWaiting(id: bigint): Promise<CancelAttempt> {
    const rows = await this.#update(
      1,
      () => this.prisma.$queryRaw<CancelRow[]>`
        WITH locked AS MATERIALIZED (
          SELECT id, status FROM orders WHERE id = ${id}::bigint FOR UPDATE
        ), changed AS (
          UPDATE orders SET status = 'cancelled', cancelled_at = now()
          FROM locked WHERE orders.id = locked.id AND locked.status = 'pending' AND orders.status = 'pending'
          RETURNING orders.id
        )
        SELECT locked.id, locked.status::text AS status, changed.id IS NOT NULL AS cancelled, true AS present
        FROM locked LEFT JOIN changed USING (id)`,
    );
    const row = rows[0];
    return row === undefined ? 'not_found' : attemptOf(row);
  }

  #update<T>(batchSize: number, statement: () => PromiseLike<T>): Promise<T> {
    return this.tracing.statement({ operation: 'UPDATE', table: 'orders', batchSize }, () => databaseCall(statement));
  }
}

function attemptOf({ status, cancelled, present }: CancelRow): CancelAttempt {
  if (status === null) {
    return present ? 'locked' : 'not_found';
  }
  // Pending and yet not changed cannot be under the row lock; should it ever be, the waiting form settles it.
  return status === 'pending' && !cancelled ? 'locked' : outcomeFrom(status);
}
