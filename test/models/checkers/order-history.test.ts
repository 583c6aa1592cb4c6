import { type Change, type ObservedState, OrderHistory } from './order-history.js';

/**
 * Violations in the history of an order that was inserted from 0 to 1 ms.
 * @param events such as `shipped 2-9, is pending 3-4`: what, from when to when. A change without an end got no response.
 */
function violationsOf(events: string): string[] {
  const history = new OrderHistory();
  history.recordChange('1', 'inserted', { startMs: 0, endMs: 1 });
  for (const event of events.split(', ')) {
    const [, is, what, start, end] = /^(is )?(\w+) (\d)(?:-(\d))?$/.exec(event)!;
    const when = { startMs: Number(start), endMs: Number(end) };
    if (is !== undefined) {
      history.recordState('1', what as ObservedState, when);
    } else if (end !== undefined) {
      history.recordChange('1', what as Change, when);
    } else {
      history.recordUncertainChange('1', what as Change, when.startMs);
    }
  }
  return history.violations();
}

describe('OrderHistory.violations', () => {
  it.each([
    'is pending 2-3',
    'shipped 2-9, is pending 3-4, is shipped 4-5',
    // Executed later, and never.
    'cancelled 2, is pending 5-6, is cancelled 7-8',
    'cancelled 2, shipped 5-6',
    'is unshipped 2-3, deleted 4-5, is absent 6-7',
  ])('is empty for %s', (events) => {
    expect(violationsOf(events)).toEqual([]);
  });

  it.each([
    'cancelled 2-3, cancelled 4-5',
    'cancelled 2-9, shipped 2-9',
    'cancelled 2-3, is pending 4-5',
    'cancelled 2-3, is shipped 4-5',
    'is cancelled 2-3',
    'is cancelled 2-3, cancelled 4-5',
    'shipped 2-9, is shipped 3-4, is unshipped 5-6',
    'is absent 2-3',
    'deleted 2-3, is pending 4-5',
  ])('reports %s', (events) => {
    expect(violationsOf(events)).toEqual([expect.stringMatching(/^order 1 /)]);
  });
});
