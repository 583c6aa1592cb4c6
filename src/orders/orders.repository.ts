import { Injectable } from '@nestjs/common';
import { Prisma } from '../database/generated/client.js';
import { databaseCall, LOCK_NOT_AVAILABLE, SERIALIZATION_FAILURE, sqlStateOf } from '../database/postgres-errors.js';
import { Pools } from '../database/pools.js';
import { PrismaService } from '../database/prisma.service.js';
import { DomainError } from '../errors/domain-error.js';
import { traced, type TracedStatement } from '../tracing/tracing.js';

/** What became of an order under its lock. */
export type CancelOutcome =
  | 'cancelled'
  | 'already_cancelled'
  | 'already_shipped'
  /** A trigger of the database kept a pending order from being cancelled. */
  | 'suppressed';

/** `retry`: the order exists, but was not locked, because another transaction locked, deleted or moved it. */
export type CancelResult = CancelOutcome | 'retry';

const SKIP_LOCKED = Prisma.raw('SKIP LOCKED');

/**
 * The statements that cancel orders. They lock each row before they look at its status: without the lock a statement
 * sees the status of its snapshot, and a shipment that commits meanwhile goes unnoticed.
 *
 * Each result has a type of its own, so that no change of a column makes a prepared statement invalid. See docs/decisions/0002.
 */
@Injectable()
export class OrdersRepository {
  constructor(
    private readonly prisma: PrismaService,
    private readonly pools: Pools,
  ) {}

  /**
   * Cancels those of the orders that are pending, several of them in one statement. Rows that another transaction has locked are
   * skipped and not waited for: one slow writer cannot stall the batch, and batches that share orders cannot deadlock.
   *
   * @param ids without duplicates
   * @returns the result of each order; undefined for one that does not exist
   * @throws {DomainError} `service_unavailable`
   */
  async cancelWithoutWaiting(ids: readonly bigint[]): Promise<Map<bigint, CancelResult | undefined>> {
    const [id] = ids;
    return id === undefined || ids.length > 1
      ? this.#cancelBatch(ids)
      : new Map([[id, await this.#cancelOne(id, SKIP_LOCKED)]]);
  }

  async #cancelBatch(ids: readonly bigint[]): Promise<Map<bigint, CancelResult>> {
    const rows = await this.#query<{ id: bigint; result: CancelResult }>(
      Prisma.sql`
        WITH locked AS MATERIALIZED (
          SELECT id, status FROM orders WHERE id = ANY(${ids}::bigint[]) FOR NO KEY UPDATE SKIP LOCKED
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
        SELECT id::bigint, 'retry' FROM orders WHERE id = ANY(${ids}::bigint[])
          AND (SELECT count(*) FROM locked) < ${ids.length}::int AND id NOT IN (SELECT id FROM locked)`,
      { batchSize: ids.length },
    );
    return new Map(rows.map(({ id, result }) => [id, result]));
  }

  /**
   * Cancels an order if it is pending, and waits for its row for up to `lock_timeout`, at most twice.
   * @returns undefined when there is no such order; `retry` when it was deleted during the wait: there may be another one
   * @throws {DomainError} `service_unavailable`, also when the row stays locked
   */
  cancelWaiting(id: bigint): Promise<CancelResult | undefined> {
    return this.#cancelOne(id, Prisma.empty);
  }

  /**
   * Cancels an order in up to two statements. Together they cost less than the one above, because neither has an UPDATE within WITH.
   * `suppressed` also when the order became pending between them.
   */
  async #cancelOne(id: bigint, lock: Prisma.Sql): Promise<CancelResult | undefined> {
    const [updated] = await this.#query<{ status: string }>(Prisma.sql`
      UPDATE orders SET status = 'cancelled', cancelled_at = now()
      WHERE id = (
        SELECT CASE status WHEN 'pending' THEN id END
        FROM orders WHERE id = ${id}::bigint FOR NO KEY UPDATE ${lock}
      ) RETURNING status::text`);
    if (updated?.status === 'cancelled') {
      return 'cancelled';
    }
    const [found] = await this.#query<{ result: CancelResult | null }>(
      Prisma.sql`
        SELECT coalesce((
          SELECT CASE status WHEN 'pending' THEN 'suppressed' ELSE 'already_' || status END
          FROM orders WHERE id = ${id}::bigint FOR NO KEY UPDATE ${lock}
        ), (SELECT 'retry' FROM orders WHERE id = ${id}::bigint)) AS result`,
      { operation: 'SELECT' },
    );
    return found?.result ?? undefined;
  }

  async #query<Row>(statement: Prisma.Sql, span: Partial<TracedStatement> = {}): Promise<Row[]> {
    const query = async (): Promise<Row[]> => {
      await this.pools.beforeWrite();
      return this.prisma.$queryRaw<Row[]>(statement);
    };
    const run = (): Promise<Row[]> =>
      query()
        .catch((error: unknown) => {
          if (sqlStateOf(error) === SERIALIZATION_FAILURE) {
            // Perhaps another transaction moved an order to another partition: the next snapshot shows it there.
            return query();
          }
          throw error;
        })
        .catch((error: unknown) => {
          throw sqlStateOf(error) === LOCK_NOT_AVAILABLE ? orderLocked(error) : error;
        });
    return traced({ operation: 'UPDATE', table: 'orders', ...span }, () => databaseCall(run));
  }
}

/** The error for an order whose row stayed locked for as long as a cancel may wait. */
export function orderLocked(cause?: unknown): DomainError {
  return new DomainError('service_unavailable', 'The order is locked by another transaction; retry shortly.', {
    cause,
  });
}
