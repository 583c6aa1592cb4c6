import { MemoryQuotaStore } from '../../src/rate-limit/memory-quota-store.js';

it('the counts of 100,000 keys or addresses are kept, and of more the least recently used one is evicted', () => {
  const store = new MemoryQuotaStore({
    clock: { now: () => 0 },
    banRule: { threshold: 0, windowSeconds: 60, durationSeconds: 90 },
  });
  const outcomeOf = (id: string): string => store.consume(id, { requestsPerMinute: 1, requestsPerDay: 1 }).outcome;
  outcomeOf('first');
  outcomeOf('second');
  outcomeOf('first');
  for (let number = 0; number < 99_999; number++) {
    outcomeOf(String(number));
  }
  expect([outcomeOf('first'), outcomeOf('second')]).toEqual(['limited', 'admitted']);
});
