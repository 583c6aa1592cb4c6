import { Injectable } from '@nestjs/common';
import { Prisma } from '../database/generated/client.js';
import { databaseCall, LOCK_NOT_AVAILABLE, sqlStateOf } from '../database/postgres-errors.js';
import { PrismaService } from '../database/prisma.service.js';
import { DomainError } from '../errors/domain-error.js';
import { traced } from '../tracing/tracing.js';

/** What became of an order under its lock. */
export type CancelOutcome =
  | 'cancelled'
  | 'already_cancelled'
  | 'already_shipped'
  /** A trigger of the database kept a pending order from being cancelled. */
  | 'suppressed';

/** `locked`: another transaction has locked or deleted the order. */
export type CancelResult = CancelOutcome | 'locked';

const SKIP_LOCKED = Prisma.raw('SKIP LOCKED');

/**
 * The statements that cancel orders. They lock each row before they look at its status: without the lock a statement
 * sees the status of its snapshot, and a shipment that commits meanwhile goes unnoticed.
 *
 * Each result has a type of its own, so that no change of a column makes a prepared statement invalid. See docs/decisions/0002.
 */
@Injectable()
export class OrdersRepository {
  constructor(private readonly prisma: PrismaService) {}

  /**
   * Cancels those of the orders that are pending, several of them in one statement. Rows that another transaction has locked are
   * skipped and not waited for: one slow writer cannot stall the batch, and batches that share orders cannot deadlock.
   *
   * @param ids without duplicates
   * @returns the result of each order that exists
   * @throws {DomainError} `service_unavailable`
   */
  async cancelWithoutWaiting(ids: readonly bigint[]): Promise<ReadonlyMap<bigint, CancelResult>> {
    const [id] = ids;
    return id !== undefined && ids.length === 1 && (await this.#cancelOne(id, SKIP_LOCKED))
      ? new Map([[id, 'cancelled']])
      : this.#cancelAll(ids, SKIP_LOCKED);
  }

  /**
   * Cancels an order if it is pending, and waits for its row for up to `lock_timeout`, at most twice.
   * @returns undefined when there is no such order
   * @throws {DomainError} `service_unavailable`, also when the row stays locked
   */
  async cancelWaiting(id: bigint): Promise<CancelOutcome | undefined> {
    if (await this.#cancelOne(id, Prisma.empty)) {
      return 'cancelled';
    }
    // The snapshot of another statement: that of the first one still shows an order that was deleted during the wait.
    const result = (await this.#cancelAll([id], Prisma.empty)).get(id);
    if (result === 'locked') {
      throw orderLocked();
    }
    return result;
  }

  /** A lone cancel costs less than the statement for several, which has an UPDATE within WITH. @returns whether it was cancelled */
  async #cancelOne(id: bigint, lock: Prisma.Sql): Promise<boolean> {
    const [updated] = await this.#query<{ status: string }>(
      Prisma.sql`
        UPDATE orders SET status = 'cancelled', cancelled_at = now()
        WHERE id = (
          SELECT CASE status WHEN 'pending' THEN id END FROM orders WHERE id = ${id}::bigint FOR NO KEY UPDATE ${lock}
        ) RETURNING status::text`,
      1,
    );
    return updated?.status === 'cancelled';
  }

  async #cancelAll(ids: readonly bigint[], lock: Prisma.Sql): Promise<ReadonlyMap<bigint, CancelResult>> {
    const rows = await this.#query<{ id: bigint; result: CancelResult }>(
      Prisma.sql`
        WITH locked AS MATERIALIZED (
          SELECT id, status FROM orders WHERE id = ANY(${ids}::bigint[]) FOR NO KEY UPDATE ${lock}
        ), updated AS (
          UPDATE orders SET status = 'cancelled', cancelled_at = now()
          WHERE id = ANY(ARRAY(SELECT id FROM locked WHERE status = 'pending')) RETURNING id, status
        )
        SELECT id::bigint, CASE
          WHEN status <> 'pending' THEN 'already_' || status
          WHEN id IN (SELECT id FROM updated WHERE status = 'cancelled') THEN 'cancelled'
          ELSE 'suppressed'
        END AS result FROM locked
        UNION ALL
        SELECT id::bigint, 'locked' FROM orders WHERE id = ANY(${ids}::bigint[])
          AND (SELECT count(*) FROM locked) < ${ids.length}::int AND id NOT IN (SELECT id FROM locked)`,
      ids.length,
    );
    return new Map(rows.map(({ id, result }) => [id, result]));
  }

  #query<Row>(statement: Prisma.Sql, batchSize: number): Promise<Row[]> {
    const run = (): Promise<Row[]> =>
      this.prisma.$queryRaw<Row[]>(statement).catch((error: unknown) => {
        throw sqlStateOf(error) === LOCK_NOT_AVAILABLE ? orderLocked(error) : error;
      });
    return traced({ operation: 'UPDATE', table: 'orders', batchSize }, () => databaseCall(run));
  }
}

/** The error for an order whose row stayed locked for as long as a cancel may wait. */
export function orderLocked(cause?: unknown): DomainError {
  return new DomainError('service_unavailable', 'The order is locked by another transaction; retry shortly.', {
    cause,
  });
}
