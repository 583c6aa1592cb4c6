import fc from 'fast-check';
import { type BanRule, type Counts, decide, UNUSED, type Verdict } from '../../../src/rate-limit/decision.js';
import { MemoryQuotaStore } from '../../../src/rate-limit/memory-quota-store.js';
import type { Quotas } from '../../../src/plans/plans.js';
import { ManualClock } from '../../helpers/manual-clock.js';

const QUOTAS: Quotas = { requestsPerMinute: 3, requestsPerDay: 8 };
const ONE: Quotas = { requestsPerMinute: 1, requestsPerDay: 1 };
const RULE: BanRule = { threshold: 3, windowSeconds: 60, durationSeconds: 90 };

const steps = fc.array(
  fc.record({
    id: fc.constantFrom('a', 'b'),
    advanceMs: fc.oneof(
      { weight: 12, arbitrary: fc.constant(0) },
      { weight: 1, arbitrary: fc.integer({ min: 0, max: 100_000 }) },
    ),
    liftsBan: fc.integer({ min: 0, max: 9 }).map((number) => number === 0),
  }),
  { minLength: 60, maxLength: 80 },
);

let clock: ManualClock;
let bans: number;
let store: MemoryQuotaStore;
beforeEach(() => {
  clock = new ManualClock();
  bans = 0;
  store = new MemoryQuotaStore({ clock, banRule: RULE, bans: { inc: () => bans++ } });
});

describe('the memory store', () => {
  it('returns the verdicts of decide() for each id, and counts each ban once, when it starts', () => {
    // One store for all runs, with other ids in each run, because creating a store is slow.
    let [run, expectedBans] = [0, 0];
    fc.assert(
      fc.property(steps, (sequence) => {
        const suffix = `run-${run++}`;
        const all = new Map<string, Counts>();
        const [given, expected]: [Verdict[], Verdict[]] = [[], []];
        for (const { id, advanceMs, liftsBan } of sequence) {
          clock.advance(advanceMs);
          const counts = all.get(id) ?? UNUSED;
          if (liftsBan) {
            store.liftBan(`${id}/${suffix}`);
            all.set(id, { ...counts, bannedUntilMs: 0, rejections: 0 });
          } else {
            const { verdict, next } = decide(counts, QUOTAS, RULE, clock.now());
            all.set(id, next);
            expectedBans += next.bannedUntilMs > counts.bannedUntilMs ? 1 : 0;
            expected.push(verdict);
            given.push(store.consume(`${id}/${suffix}`, QUOTAS));
          }
        }
        expect([given, bans]).toEqual([expected, expectedBans]);
      }),
      { numRuns: 300 },
    );
    expect(bans).toBeGreaterThan(100);
  });

  it('stores no entry when it lifts the ban of an id without requests', () => {
    store.consume('a', ONE);
    for (let number = 0; number < 100_001; number++) {
      store.liftBan(String(number));
    }
    expect(store.consume('a', ONE).outcome).toBe('limited');
  });

  it('evicts the least recently used id when there are more than 100,000', () => {
    store.consume('first', ONE);
    store.consume('second', ONE);
    store.consume('first', ONE);
    for (let number = 0; number < 99_999; number++) {
      store.consume(String(number), ONE);
    }
    expect(store.consume('first', ONE).outcome).toBe('limited');
    expect(store.consume('second', ONE).outcome).toBe('admitted');
  });
});
