import { Injectable } from '@nestjs/common';
import { DomainError } from '../errors/domain-error.js';
import { Metrics } from '../metrics/metrics.js';
import { CancelBatcher } from './cancel-batcher.js';

/**
 * The rule for cancelling an order:
 *
 *     pending ── cancel ──> cancelled          shipped and cancelled are final
 *
 * Only a pending order can be cancelled, and only once. The status of the row under its lock decides: after a shipment that
 * committed first the cancel fails, and of several concurrent cancels exactly one succeeds.
 */
@Injectable()
export class OrdersService {
  constructor(
    private readonly batcher: CancelBatcher,
    private readonly metrics: Metrics,
  ) {}

  /**
   * Cancels a pending order.
   * @param caller whose share of the waits for locked orders this cancel may use
   * @throws {DomainError} `order_not_found`, `order_already_shipped`, `order_already_cancelled`, `service_unavailable`, also when
   * the row stays locked by another transaction
   */
  async cancel(id: bigint, caller: string): Promise<void> {
    const outcome = (await this.batcher.cancel(id, caller)) ?? 'not_found';
    if (outcome === 'suppressed') {
      throw new Error(
        'PostgreSQL did not update a pending order: a trigger or rule on "orders" suppresses the update.',
      );
    }
    this.metrics.cancels.labels(outcome).inc();
    if (outcome !== 'cancelled') {
      throw new DomainError(`order_${outcome}`);
    }
  }
}
