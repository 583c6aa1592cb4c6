import type { CancelBatcher } from '../../../src/orders/cancel-batcher.js';
import {
  type CancelOutcome,
  errorOf,
  OrderCancellationService,
  outcomeOf,
} from '../../../src/orders/order-cancellation.service.js';
import type { OrderStatus } from '../../../src/orders/orders.repository.js';

describe('OrderCancellationService', () => {
  it.each<[OrderStatus | undefined, CancelOutcome]>([
    ['pending', 'cancelled'],
    ['shipped', 'already_shipped'],
    ['cancelled', 'already_cancelled'],
    [undefined, 'not_found'],
  ])('turns the status %s under the lock into the outcome %s', async (status, outcome) => {
    const batcher = { cancel: (id: bigint) => Promise.resolve(id === 7n ? status : undefined) };
    const service = new OrderCancellationService(batcher as unknown as CancelBatcher);
    expect(await service.cancel(7n)).toBe(outcome);
  });

  it('passes on the error of a cancel that could not be executed', async () => {
    const error = new Error('lost');
    const batcher = { cancel: () => Promise.reject(error) };
    await expect(new OrderCancellationService(batcher as unknown as CancelBatcher).cancel(7n)).rejects.toBe(error);
  });
});

describe('errorOf', () => {
  it.each<[CancelOutcome, string | undefined, RegExp]>([
    ['cancelled', undefined, /^$/],
    ['already_cancelled', 'order_already_cancelled', /already been cancelled/],
    ['already_shipped', 'order_already_shipped', /already shipped and cannot be cancelled/],
    ['not_found', 'order_not_found', /No order has this id/],
  ])('gives the outcome %s the code %s and a message that says why', (outcome, code, message) => {
    expect(errorOf(outcome)?.code).toBe(code);
    expect(errorOf(outcome)?.message ?? '').toMatch(message);
  });

  it('reports success for a pending order only', () => {
    const statuses = ['pending', 'shipped', 'cancelled', undefined] as const;
    expect(statuses.filter((status) => errorOf(outcomeOf(status)) === undefined)).toEqual(['pending']);
  });
});
