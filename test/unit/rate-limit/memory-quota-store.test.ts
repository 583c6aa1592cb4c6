import fc from 'fast-check';
import { type BanRule, decide, type SubjectState, UNUSED } from '../../../src/rate-limit/decision.js';
import { MemoryQuotaStore } from '../../../src/rate-limit/memory-quota-store.js';
import type { Quotas } from '../../../src/plans/plans.js';
import type { Verdict } from '../../../src/rate-limit/verdict.js';
import { ManualClock } from '../../helpers/manual-clock.js';

const QUOTAS: Quotas = { requestsPerMinute: 3, requestsPerDay: 8 };
const RULE: BanRule = { threshold: 3, windowSeconds: 60, durationSeconds: 90 };
const NO_BANS: BanRule = { threshold: 0, windowSeconds: 60, durationSeconds: 300 };

const steps = fc.array(
  fc.record({
    subject: fc.constantFrom('key:a', 'key:b', 'address:203.0.113.7'),
    advanceMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 100_000 })),
    liftsBan: fc.integer({ min: 0, max: 9 }).map((number) => number === 0),
  }),
  { maxLength: 80 },
);

describe('the memory store', () => {
  it('returns the verdicts of decide() for the requests of each subject', () => {
    // One store for all runs, with other subjects in each run, because creating a store is slow.
    const clock = new ManualClock();
    const store = new MemoryQuotaStore(clock, RULE);
    let run = 0;
    fc.assert(
      fc.property(steps, (sequence) => {
        const suffix = `run-${run++}`;
        const states = new Map<string, SubjectState>();
        const [given, expected]: [Verdict[], Verdict[]] = [[], []];
        for (const { subject, advanceMs, liftsBan } of sequence) {
          clock.advance(advanceMs);
          const state = states.get(subject) ?? UNUSED;
          if (liftsBan) {
            store.liftBan(`${subject}/${suffix}`);
            states.set(subject, { ...state, bannedUntilMs: 0, rejections: 0 });
          } else {
            const { verdict, next } = decide(state, QUOTAS, RULE, clock.now());
            states.set(subject, next);
            expected.push(verdict);
            given.push(store.consume(`${subject}/${suffix}`, QUOTAS));
          }
        }
        expect(given).toEqual(expected);
      }),
      { numRuns: 300 },
    );
  });

  it('counts each subject separately', () => {
    const store = new MemoryQuotaStore(new ManualClock(), NO_BANS);
    const outcomes = ['key:a', 'key:a', 'key:a', 'key:a', 'key:b'].map(
      (subject) => store.consume(subject, QUOTAS).outcome,
    );
    expect(outcomes).toEqual(['admitted', 'admitted', 'admitted', 'limited', 'admitted']);
  });

  it('liftBan ends a ban, clears the rejections and keeps the counts of the windows', () => {
    const clock = new ManualClock();
    const store = new MemoryQuotaStore(clock, RULE);
    const consume = (): string => store.consume('key:a', QUOTAS).outcome;
    expect(Array.from({ length: 7 }, consume).slice(3)).toEqual(['limited', 'limited', 'banned', 'banned']);
    store.liftBan('key:a');
    // The minute is still exhausted. The rejections before the ban no longer count, so three new ones are needed.
    expect([consume(), consume(), consume()]).toEqual(['limited', 'limited', 'banned']);
    store.liftBan('key:a');
    clock.advance(60_000);
    expect(store.consume('key:a', QUOTAS)).toMatchObject({
      outcome: 'admitted',
      minute: { remaining: 2 },
      day: { remaining: 4 }, // 8 minus 3 in the first minute and 1 now
    });
  });

  it('liftBan clears the rejections that have not led to a ban yet', () => {
    const store = new MemoryQuotaStore(new ManualClock(), RULE);
    const consume = (): string => store.consume('key:a', QUOTAS).outcome;
    expect(Array.from({ length: 5 }, consume).slice(3)).toEqual(['limited', 'limited']);
    store.liftBan('key:a');
    expect([consume(), consume(), consume()]).toEqual(['limited', 'limited', 'banned']);
  });

  it('liftBan has no effect on a subject without a ban', () => {
    const store = new MemoryQuotaStore(new ManualClock(), RULE);
    store.liftBan('key:a');
    expect(store.consume('key:a', QUOTAS)).toMatchObject({ outcome: 'admitted', minute: { remaining: 2 } });
  });

  it('calls onBan once for each ban, when it starts', () => {
    const clock = new ManualClock();
    const banned: string[] = [];
    const store = new MemoryQuotaStore(clock, RULE, (subject) => banned.push(subject));
    const consume = (times: number): string[] => {
      for (let time = 0; time < times; time++) {
        store.consume('key:a', QUOTAS);
      }
      return banned;
    };
    expect(consume(QUOTAS.requestsPerMinute + RULE.threshold - 1)).toEqual([]);
    expect(consume(1)).toEqual(['key:a']);
    expect(consume(5)).toEqual(['key:a']);
    store.consume('key:b', QUOTAS);
    clock.advance(RULE.durationSeconds * 1_000);
    expect(consume(QUOTAS.requestsPerMinute + RULE.threshold)).toEqual(['key:a', 'key:a']);
  });

  it('liftBan stores no entry for a subject without requests', () => {
    const store = new MemoryQuotaStore(new ManualClock(), NO_BANS);
    const one: Quotas = { requestsPerMinute: 1, requestsPerDay: 1 };
    store.consume('key:a', one);
    for (let number = 0; number < 100_001; number++) {
      store.liftBan(`key:${number}`);
    }
    expect(store.consume('key:a', one).outcome).toBe('limited');
  });

  it('keeps the counts of a key whatever the number of addresses', () => {
    const store = new MemoryQuotaStore(new ManualClock(), NO_BANS);
    const one: Quotas = { requestsPerMinute: 1, requestsPerDay: 1 };
    store.consume('key:a', one);
    for (let number = 0; number < 100_001; number++) {
      store.consume(`address:${number}`, one);
    }
    expect(store.consume('key:a', one).outcome).toBe('limited');
  });

  it('evicts the least recently used address when there are more than 100,000', () => {
    const store = new MemoryQuotaStore(new ManualClock(), NO_BANS);
    const one: Quotas = { requestsPerMinute: 1, requestsPerDay: 1 };
    store.consume('address:first', one);
    store.consume('address:second', one);
    store.consume('address:first', one);
    for (let number = 0; number < 99_999; number++) {
      store.consume(`address:${number}`, one);
    }
    expect(store.consume('address:first', one).outcome).toBe('limited');
    expect(store.consume('address:second', one).outcome).toBe('admitted');
  });
});
