import {
  type CancelOutcome,
  type OrderStatus,
  outcomeForRepeat,
  outcomeFrom,
  errorForOutcome,
} from '../../../src/orders/cancellation.js';

describe('cancelling', () => {
  it.each<[OrderStatus, CancelOutcome]>([
    ['pending', 'cancelled'],
    ['shipped', 'already_shipped'],
    ['cancelled', 'already_cancelled'],
  ])('an order that is %s gives the outcome %s', (status, outcome) => {
    expect(outcomeFrom(status)).toBe(outcome);
  });

  it.each<[CancelOutcome, CancelOutcome]>([
    ['cancelled', 'already_cancelled'],
    ['already_cancelled', 'already_cancelled'],
    ['already_shipped', 'already_shipped'],
    ['not_found', 'not_found'],
  ])('is, for whoever shared an attempt that gave %s, %s', (first, repeated) => {
    expect(outcomeForRepeat(first)).toBe(repeated);
  });

  it.each<[CancelOutcome, string | undefined]>([
    ['cancelled', undefined],
    ['already_cancelled', 'order_already_cancelled'],
    ['already_shipped', 'order_already_shipped'],
    ['not_found', 'order_not_found'],
  ])('with the outcome %s is refused with the code %s', (outcome, code) => {
    expect(errorForOutcome(outcome)?.code).toBe(code);
  });

  it.each<[CancelOutcome, RegExp]>([
    ['already_cancelled', /already been cancelled/],
    ['already_shipped', /already shipped and cannot be cancelled/],
    ['not_found', /No order has this id/],
  ])('with the outcome %s is refused in words that say why', (outcome, words) => {
    expect(errorForOutcome(outcome)?.message).toMatch(words);
  });

  it('succeeds for one caller at most, whatever state the order was in and however many share the attempt', () => {
    for (const status of ['pending', 'shipped', 'cancelled'] as const) {
      const first = outcomeFrom(status);
      const all = [first, ...Array.from({ length: 5 }, () => outcomeForRepeat(first))];
      expect(all.filter((outcome) => errorForOutcome(outcome) === undefined)).toHaveLength(
        status === 'pending' ? 1 : 0,
      );
    }
  });
});
