import { OrderHistory } from './order-history.js';

const at = (startMs: number, endMs: number): { startMs: number; endMs: number } => ({ startMs, endMs });

/** Violations in the history of an order that was inserted from 0 to 1 ms. */
function violationsOf(record: (history: OrderHistory) => void): string[] {
  const history = new OrderHistory();
  history.recordChange('1', 'inserted', at(0, 1));
  record(history);
  return history.violations();
}

describe('OrderHistory.violations', () => {
  it.each<[string, (history: OrderHistory) => void]>([
    ['an order without changes', (order) => order.recordState('1', 'pending', at(2, 3))],
    [
      'a pending order observed during a shipment',
      (order) => {
        order.recordChange('1', 'shipped', at(2, 9));
        order.recordState('1', 'pending', at(3, 4));
        order.recordState('1', 'shipped', at(4, 5));
      },
    ],
    [
      'a cancel without a response that is executed later',
      (order) => {
        order.recordUncertainChange('1', 'cancelled', 2);
        order.recordState('1', 'pending', at(5, 6));
        order.recordState('1', 'cancelled', at(7, 8));
      },
    ],
    [
      'a cancel without a response that is never executed',
      (order) => {
        order.recordUncertainChange('1', 'cancelled', 2);
        order.recordChange('1', 'shipped', at(5, 6));
      },
    ],
    [
      'a deletion of a pending order',
      (order) => {
        order.recordState('1', 'unshipped', at(2, 3));
        order.recordChange('1', 'deleted', at(4, 5));
        order.recordState('1', 'absent', at(6, 7));
      },
    ],
  ])('is empty for %s', (_what, record) => {
    expect(violationsOf(record)).toEqual([]);
  });

  it.each<[string, (history: OrderHistory) => void]>([
    [
      'two successful cancels',
      (order) => {
        order.recordChange('1', 'cancelled', at(2, 3));
        order.recordChange('1', 'cancelled', at(4, 5));
      },
    ],
    [
      'a cancel and a shipment that both succeed',
      (order) => {
        order.recordChange('1', 'cancelled', at(2, 9));
        order.recordChange('1', 'shipped', at(2, 9));
      },
    ],
    [
      'a pending order observed after its cancel',
      (order) => {
        order.recordChange('1', 'cancelled', at(2, 3));
        order.recordState('1', 'pending', at(4, 5));
      },
    ],
    [
      'a shipped order observed after its cancel',
      (order) => {
        order.recordChange('1', 'cancelled', at(2, 3));
        order.recordState('1', 'shipped', at(4, 5));
      },
    ],
    ['a cancelled order without a cancel', (order) => order.recordState('1', 'cancelled', at(2, 3))],
    [
      'a cancelled order observed before the request to cancel it',
      (order) => {
        order.recordState('1', 'cancelled', at(2, 3));
        order.recordChange('1', 'cancelled', at(4, 5));
      },
    ],
    [
      'an unshipped order observed after it was observed as shipped',
      (order) => {
        order.recordChange('1', 'shipped', at(2, 9));
        order.recordState('1', 'shipped', at(3, 4));
        order.recordState('1', 'unshipped', at(5, 6));
      },
    ],
    ['an absent order without a deletion', (order) => order.recordState('1', 'absent', at(2, 3))],
    [
      'a pending order observed after its deletion',
      (order) => {
        order.recordChange('1', 'deleted', at(2, 3));
        order.recordState('1', 'pending', at(4, 5));
      },
    ],
  ])('reports %s', (_what, record) => {
    expect(violationsOf(record)).toEqual([expect.stringMatching(/^order 1 /)]);
  });
});
