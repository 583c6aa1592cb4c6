import type { INestApplicationContext } from '@nestjs/common';
import { CancelBatcher } from '../../src/orders/cancel-batcher.js';
import { OrdersRepository } from '../../src/orders/orders.repository.js';
import { waitFor } from './wait-for.js';

/**
 * Makes the first statements wait until so many cancels have arrived: the next ones take all the others.
 * @returns the ids of each statement
 */
export function gatherCancels(app: INestApplicationContext, count: number): () => (readonly bigint[])[] {
  const repository = app.get(OrdersRepository);
  const cancels = jest.spyOn(app.get(CancelBatcher), 'cancel');
  const cancelWithoutWaiting = repository.cancelWithoutWaiting.bind(repository);
  const statements = jest.spyOn(repository, 'cancelWithoutWaiting').mockImplementation(async (batch) => {
    await waitFor(() => cancels.mock.calls.length >= count, 'all cancels have arrived');
    return cancelWithoutWaiting(batch);
  });
  return () => statements.mock.calls.map(([batch]) => batch);
}

/** How often each outcome occurs. */
export function tally(outcomes: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const each of outcomes) {
    counts[each] = (counts[each] ?? 0) + 1;
  }
  return counts;
}
