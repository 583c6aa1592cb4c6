import { Injectable } from '@nestjs/common';
import { Metrics } from '../metrics/metrics.js';
import { CancelBatcher } from './cancel-batcher.js';
import { errorForOutcome } from './cancellation.js';

/** The rules of the order operations. */
@Injectable()
export class OrdersService {
  constructor(
    private readonly batcher: CancelBatcher,
    private readonly metrics: Metrics,
  ) {}

  /**
   * Cancels a pending order.
   * @throws {DomainError} `order_not_found`, `order_already_shipped`, `order_already_cancelled`, `service_unavailable`
   */
  async cancel(id: bigint): Promise<void> {
    const outcome = await this.batcher.cancel(id);
    this.metrics.cancels.inc({ outcome });
    const refusal = errorForOutcome(outcome);
    if (refusal !== undefined) {
      throw refusal;
    }
  }
}
