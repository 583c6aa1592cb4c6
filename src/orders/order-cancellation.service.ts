import { Injectable } from '@nestjs/common';
import { DomainError } from '../errors/domain-error.js';
import { CancelBatcher } from './cancel-batcher.js';
import type { OrderStatus } from './orders.repository.js';

/** What a request to cancel an order achieved. Only `cancelled` changed the order. */
export type CancelOutcome = 'cancelled' | 'already_cancelled' | 'already_shipped' | 'not_found';

/**
 * The rule for cancelling an order:
 *
 *     pending ── cancel ──> cancelled          shipped and cancelled are final
 *
 * Only a pending order can be cancelled, and only once. The status of the row under its lock decides: after a shipment that
 * committed first the cancel fails, and of several concurrent cancels exactly one succeeds.
 *
 * {@link CancelBatcher} executes the rule. One statement locks the row, reads its status and updates it if it is pending;
 * concurrent cancels share the statement.
 */
@Injectable()
export class OrderCancellationService {
  constructor(private readonly batcher: CancelBatcher) {}

  /** @throws {DomainError} `service_unavailable`, also when the row stays locked by another transaction */
  async cancel(id: bigint): Promise<CancelOutcome> {
    return outcomeOf(await this.batcher.cancel(id));
  }
}

/** @param statusUnderLock the status at the moment of locking, before the update; undefined when there is no such order */
export function outcomeOf(statusUnderLock: OrderStatus | undefined): CancelOutcome {
  switch (statusUnderLock) {
    case 'pending':
      return 'cancelled';
    case 'cancelled':
      return 'already_cancelled';
    case 'shipped':
      return 'already_shipped';
    case undefined:
      return 'not_found';
  }
}

/** The error that the caller gets; undefined when the order was cancelled. */
export function errorOf(outcome: CancelOutcome): DomainError | undefined {
  switch (outcome) {
    case 'cancelled':
      return undefined;
    case 'already_cancelled':
      return DomainError.of('order_already_cancelled');
    case 'already_shipped':
      return DomainError.of('order_already_shipped');
    case 'not_found':
      return DomainError.of('order_not_found');
  }
}
