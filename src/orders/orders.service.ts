import { Injectable } from '@nestjs/common';
import { Metrics } from '../metrics/metrics.js';
import { errorOf, OrderCancellationService } from './order-cancellation.service.js';

/** The operations on orders, as the controller calls them. The list is written by {@link OrderListResponder}. */
@Injectable()
export class OrdersService {
  constructor(
    private readonly cancellation: OrderCancellationService,
    private readonly metrics: Metrics,
  ) {}

  /**
   * Cancels a pending order.
   * @throws {DomainError} `order_not_found`, `order_already_shipped`, `order_already_cancelled`, `service_unavailable`
   */
  async cancel(id: bigint): Promise<void> {
    const outcome = await this.cancellation.cancel(id);
    this.metrics.cancels.labels(outcome).inc();
    const error = errorOf(outcome);
    if (error !== undefined) {
      throw error;
    }
  }
}
