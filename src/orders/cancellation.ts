import { DomainError } from '../errors/domain-error.js';

/** The states of an order. Only `pending` can be left, and only once. */
export type OrderStatus = 'pending' | 'shipped' | 'cancelled';

/**
 * What one attempt to cancel found and did, decided under the lock on the row: `cancelled` means that this attempt made
 * the transition; the others left everything as it was.
 */
export type CancelOutcome = 'cancelled' | 'already_cancelled' | 'already_shipped' | 'not_found';

/** The outcome for an order that was seen in this state while its row was locked. */
export function outcomeFrom(statusUnderLock: OrderStatus): CancelOutcome {
  switch (statusUnderLock) {
    case 'pending':
      return 'cancelled';
    case 'shipped':
      return 'already_shipped';
    case 'cancelled':
      return 'already_cancelled';
  }
}

/** The outcome for a second attempt that shared the first one's lock: nobody can be told twice that they cancelled. */
export function outcomeForRepeat(first: CancelOutcome): CancelOutcome {
  return first === 'cancelled' ? 'already_cancelled' : first;
}

/** The error that an outcome means to the caller; undefined when the order was cancelled. */
export function errorForOutcome(outcome: CancelOutcome): DomainError | undefined {
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
