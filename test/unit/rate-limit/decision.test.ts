import fc from 'fast-check';
import {
  type BanRule,
  type Counts,
  decide,
  UNUSED,
  type Verdict,
  type WindowVerdict,
} from '../../../src/rate-limit/decision.js';
import { rateLimitHeaders } from '../../../src/rate-limit/headers.js';
import type { Quotas } from '../../../src/plans/plans.js';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const START = Date.UTC(2026, 10, 21, 23, 58, 0);

const quotas = fc.record({
  requestsPerMinute: fc.integer({ min: 1, max: 5 }),
  requestsPerDay: fc.integer({ min: 1, max: 12 }),
});
const rules = fc.record({
  threshold: fc.integer({ min: 0, max: 4 }),
  windowSeconds: fc.constantFrom(1, 2, 60),
  durationSeconds: fc.constantFrom(1, 2, 90),
});
/** How far the clock moves before each request: mostly a little, sometimes into another minute or day. */
const steps = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: fc.constant(0) },
    // Often to the end of a short ban or of its window.
    { weight: 4, arbitrary: fc.constantFrom(1, 500, 999, 1_000, 1_001, 2_000) },
    { weight: 2, arbitrary: fc.integer({ min: 2_000, max: 3 * MINUTE_MS }) },
    { weight: 1, arbitrary: fc.integer({ min: MINUTE_MS, max: 2 * DAY_MS }) },
  ),
  { minLength: 1, maxLength: 60 },
);

interface Step {
  readonly now: number;
  readonly after: Counts;
  readonly verdict: Verdict;
}

function play(rule: BanRule, quota: Quotas, advances: readonly number[]): Step[] {
  let now = START;
  let state: Counts = UNUSED;
  return advances.map((advance) => {
    now += advance;
    const { verdict, next } = decide(Object.freeze({ ...state }), quota, rule, now);
    state = next;
    return { now, after: next, verdict };
  });
}

/**
 * A second implementation of the rules, from the whole history instead of from counters. It is slow and simple, and shares
 * no code with the decision.
 */
function verdictsByHistory(rule: BanRule, quota: Quotas, times: readonly number[]): Verdict[] {
  const admitted: number[] = [];
  let rejected: number[] = [];
  let bannedUntilMs = 0;
  const windowAt = (now: number, windowMs: number, limit: number): WindowVerdict => {
    const number = Math.floor(now / windowMs);
    const used = admitted.filter((time) => Math.floor(time / windowMs) === number).length;
    const banEndSeconds = now < bannedUntilMs ? Math.ceil(bannedUntilMs / 1_000) : undefined;
    return { limit, remaining: limit - used, resetAtSeconds: banEndSeconds ?? ((number + 1) * windowMs) / 1_000 };
  };
  const windowsAt = (now: number): Pick<Verdict, 'minute' | 'day'> => ({
    minute: windowAt(now, MINUTE_MS, quota.requestsPerMinute),
    day: windowAt(now, DAY_MS, quota.requestsPerDay),
  });
  const outcomeAt = (now: number): Verdict['outcome'] => {
    if (now < bannedUntilMs) {
      return 'banned';
    }
    const { minute, day } = windowsAt(now);
    if (minute.remaining > 0 && day.remaining > 0) {
      admitted.push(now);
      return 'admitted';
    }
    const [first = now] = rejected;
    rejected = now - first < rule.windowSeconds * 1_000 ? [...rejected, now] : [now];
    if (rule.threshold > 0 && rejected.length >= rule.threshold) {
      rejected = [];
      bannedUntilMs = now + rule.durationSeconds * 1_000;
      return 'banned';
    }
    return 'limited';
  };
  return times.map((now) => {
    const outcome = outcomeAt(now);
    return { outcome, ...windowsAt(now), decidedAtMs: now };
  });
}

function expectForAll(property: (steps: Step[], quota: Quotas, rule: BanRule) => void): void {
  fc.assert(
    fc.property(rules, quotas, steps, (rule, quota, advances) => {
      property(play(rule, quota, advances), quota, rule);
    }),
    { numRuns: 300 },
  );
}

describe('decide, for any sequence of requests', () => {
  it('returns the verdict that follows from the whole history', () => {
    expectForAll((played, quota, rule) => {
      const times = played.map(({ now }) => now);
      expect(played.map(({ verdict }) => verdict)).toStrictEqual(verdictsByHistory(rule, quota, times));
    });
  });

  it('applies changed quotas to the requests counted before, of which none remain if there were more', () => {
    const [{ after }] = play(
      { threshold: 0, windowSeconds: 1, durationSeconds: 1 },
      { requestsPerMinute: 9, requestsPerDay: 9 },
      Array<number>(9).fill(0),
    ).slice(-1) as [Step];
    const decideWith = (requestsPerMinute: number, requestsPerDay: number): Verdict =>
      decide(
        after,
        { requestsPerMinute, requestsPerDay },
        { threshold: 0, windowSeconds: 1, durationSeconds: 1 },
        START,
      ).verdict;
    expect(decideWith(10, 20)).toMatchObject({ outcome: 'admitted', minute: { remaining: 0 }, day: { remaining: 10 } });
    expect(decideWith(5, 4)).toMatchObject({ outcome: 'limited', minute: { remaining: 0 }, day: { remaining: 0 } });
  });

  it('stores fewer rejections than the ban threshold', () => {
    expectForAll((played, _quota, rule) => {
      for (const { after } of played) {
        expect(after.rejections).toBeLessThanOrEqual(Math.max(0, rule.threshold - 1));
      }
    });
  });

  it('returns a Retry-After of at least one second and never before the reset', () => {
    expectForAll((played) => {
      for (const { now, verdict } of played.filter((step) => step.verdict.outcome !== 'admitted')) {
        const headers = new Map(rateLimitHeaders(verdict));
        const retryAfter = Number(headers.get('Retry-After'));
        expect(retryAfter).toBeGreaterThanOrEqual(1);
        expect(now + retryAfter * 1_000).toBeGreaterThanOrEqual(Number(headers.get('X-RateLimit-Reset')) * 1_000);
      }
    });
  });

  it('does not reject for the same window or ban after Retry-After has passed', () => {
    expectForAll((played, quota, rule) => {
      for (const { now, after, verdict } of played.filter((step) => step.verdict.outcome !== 'admitted')) {
        const waitMs = Number(new Map(rateLimitHeaders(verdict)).get('Retry-After')) * 1_000;
        const retried = decide(after, quota, rule, now + waitMs);
        // After a ban a window may still be exhausted, which is another rejection.
        const isFree = verdict.outcome === 'limited' ? retried.verdict.outcome === 'admitted' : true;
        expect(isFree).toBe(true);
        expect(retried.verdict.outcome === 'banned' && retried.next.bannedUntilMs === after.bannedUntilMs).toBe(false);
      }
    });
  });
});
