import { Injectable } from '@nestjs/common';
import { UsageRecorder } from '../usage/usage-recorder.js';
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
    private readonly usage: UsageRecorder,
  ) {}

  /**
   * Cancels a pending order.
   * @param caller the key; this cancel may use its share of the waits for locked orders, and counts as its usage
   * @throws {DomainError} `order_not_found`, `order_already_shipped`, `order_already_cancelled`, `service_unavailable`, also when
   * the row stays locked by another transaction
   */
  async cancel(id: bigint, caller: string): Promise<void> {
    const outcome = (await this.batcher.cancel(id, caller)) ?? 'not_found';
    if (outcome === 'suppressed') {
      throw new Error('A trigger on "orders" keeps a pending order from being cancelled.');
    }
    this.metrics.cancels.labels(outcome).inc();
    if (outcome !== 'cancelled') {
      throw new DomainError(`order_${outcome}`);
    }
    // Also when its client has left before the response.
    this.usage.add(caller, { cancels: 1 });
  }
}
