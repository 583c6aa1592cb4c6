import { Inject, Injectable } from '@nestjs/common';
import { Prisma } from '../database/generated/client.js';
import { databaseCall, LOCK_NOT_AVAILABLE, sqlStateOf } from '../database/postgres-errors.js';
import { PrismaService } from '../database/prisma.service.js';
import { DomainError } from '../errors/domain-error.js';
import { TRACING, type Tracing } from '../tracing/tracing.js';

export type OrderStatus = 'pending' | 'shipped' | 'cancelled';

/**
 * The status that a statement read of an order under its lock (`pending`: the order is cancelled now), or `locked` if another
 * transaction has locked it.
 */
export type SeenStatus = OrderStatus | 'locked';

/**
 * The statements that cancel orders. They lock each row before they look at its status: without the lock a statement
 * sees the status of its snapshot, and a shipment that commits meanwhile goes unnoticed.
 *
 * Prisma's cost grows with the rows that it returns, so a batch returns one row and takes its ids as one text. See
 * docs/decisions/0002.
 */
@Injectable()
export class OrdersRepository {
  constructor(
    private readonly prisma: PrismaService,
    @Inject(TRACING) private readonly tracing: Pick<Tracing, 'statement'>,
  ) {}

  /**
   * Cancels those of the orders that are pending, in one transaction. Rows that another transaction has locked are
   * skipped and not waited for: one slow writer cannot stall the batch, and batches that share orders cannot deadlock.
   *
   * @param ids without duplicates
   * @throws {DomainError} `service_unavailable`
   */
  async cancelUnlocked(ids: readonly bigint[]): Promise<Map<bigint, SeenStatus>> {
    const [first] = ids;
    if (first !== undefined && ids.length === 1 && (await this.#cancelLone(first))) {
      return new Map([[first, 'pending']]);
    }
    const [row] = await this.#update(ids.length, () =>
      this.prisma.queryRows<[seen: string | null]>(Prisma.sql`
        WITH locked AS MATERIALIZED (
          SELECT id, status FROM orders WHERE id = ANY(${arrayText(ids)}::text::bigint[]) FOR NO KEY UPDATE SKIP LOCKED
        ), updated AS (
          UPDATE orders SET status = 'cancelled', cancelled_at = now() FROM locked
          WHERE orders.id = locked.id AND locked.status = 'pending' RETURNING orders.id
        )
        SELECT string_agg(id || ' ' || status, ',') AS seen FROM (
          SELECT id, 'pending' AS status FROM updated
          UNION ALL SELECT id, status::text FROM locked WHERE status <> 'pending'
        ) AS each`),
    );
    const seen = new Map<bigint, SeenStatus>();
    for (const pair of row?.[0]?.split(',') ?? []) {
      const [id = '', status] = pair.split(' ');
      seen.set(BigInt(id), status as OrderStatus);
    }
    for (const id of await this.#existing(ids.filter((wanted) => !seen.has(wanted)))) {
      seen.set(id, 'locked');
    }
    return seen;
  }

  /**
   * Cancels one order if it is pending, and waits for its row for up to `lock_timeout`.
   * @returns the status under the lock; undefined when there is no such order
   * @throws {DomainError} `service_unavailable`, also when the row stays locked
   * @throws {Error} when a trigger or rule of the database keeps a pending order from being updated
   */
  async cancelWaiting(id: bigint): Promise<OrderStatus | undefined> {
    const [row] = await this.#update(
      1,
      () => this.prisma.$queryRaw<{ status: OrderStatus; updated: boolean }[]>`
        WITH locked AS MATERIALIZED (
          SELECT id, status FROM orders WHERE id = ${String(id)}::text::bigint FOR NO KEY UPDATE
        ), updated AS (
          UPDATE orders SET status = 'cancelled', cancelled_at = now() FROM locked
          WHERE orders.id = locked.id AND locked.status = 'pending' RETURNING orders.id
        )
        SELECT status::text, EXISTS (SELECT FROM updated) AS updated FROM locked`,
    );
    if (row?.status === 'pending' && !row.updated) {
      throw new Error(
        'PostgreSQL did not update a pending order: a trigger or rule on "orders" suppresses the update.',
      );
    }
    return row?.status;
  }

  /** Returns only whether the order was cancelled, and costs less than the statement for many orders. */
  async #cancelLone(id: bigint): Promise<boolean> {
    const updated = await this.#update(1, () =>
      this.prisma.execute(Prisma.sql`
        UPDATE orders SET status = 'cancelled', cancelled_at = now()
        WHERE id = (
          SELECT id FROM orders
          WHERE id = ${String(id)}::text::bigint AND status = 'pending' FOR NO KEY UPDATE SKIP LOCKED
        ) AND status = 'pending'`),
    );
    return updated === 1;
  }

  /**
   * The existing ones among the orders that the statement did not return. If the query fails, all of them: the others of
   * the batch are cancelled already, and waiting for these will report the error.
   */
  async #existing(ids: readonly bigint[]): Promise<readonly bigint[]> {
    if (ids.length === 0) {
      return [];
    }
    try {
      const [row] = await this.prisma.$queryRaw<[{ ids: string | null }]>`
        SELECT string_agg(id::text, ',') AS ids FROM orders WHERE id = ANY(${arrayText(ids)}::text::bigint[])`;
      return row.ids?.split(',').map(BigInt) ?? [];
    } catch {
      return ids;
    }
  }

  #update<T>(batchSize: number, statement: () => PromiseLike<T>): Promise<T> {
    return this.tracing.statement({ operation: 'UPDATE', table: 'orders', batchSize }, () =>
      databaseCall(async () => {
        try {
          return await statement();
        } catch (error) {
          throw sqlStateOf(error) === LOCK_NOT_AVAILABLE ? orderLocked(error) : error;
        }
      }),
    );
  }
}

/** The error for an order whose row stayed locked for as long as a cancel may wait. */
export function orderLocked(cause?: unknown): DomainError {
  return new DomainError('service_unavailable', 'The order is locked by another transaction; retry shortly.', {
    cause,
  });
}

/** The text form of a PostgreSQL array. */
function arrayText(ids: readonly bigint[]): string {
  return `{${ids.join()}}`;
}
