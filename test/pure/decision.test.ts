import fc from 'fast-check';
import {
  type BanRule,
  type Counts,
  decide,
  UNUSED,
  type Verdict,
  type WindowVerdict,
} from '../../src/rate-limit/decision.js';
import type { Quotas } from '../../src/plans/plans.js';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const START = Date.UTC(2026, 10, 21, 23, 58, 0);

const quotas = fc.record({
  requestsPerMinute: fc.integer({ min: 1, max: 5 }),
  requestsPerDay: fc.integer({ min: 1, max: 12 }),
});
const rules = fc.record({
  threshold: fc.integer({ min: 0, max: 4 }),
  windowSeconds: fc.constantFrom(1, 3, 60),
  durationSeconds: fc.constantFrom(1, 2, 90),
});
/** How far the clock moves before each request: mostly a little, sometimes into another minute or day, sometimes back. */
const steps = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: fc.constant(0) },
    // Often to the end of a short ban or of its window.
    { weight: 4, arbitrary: fc.constantFrom(1, 500, 999, 1_000, 1_001, 2_000) },
    { weight: 2, arbitrary: fc.integer({ min: 2_000, max: 3 * MINUTE_MS }) },
    { weight: 1, arbitrary: fc.integer({ min: MINUTE_MS, max: 2 * DAY_MS }) },
    { weight: 1, arbitrary: fc.constantFrom(-1, -1_000, -30_000, -MINUTE_MS, -MINUTE_MS - 1, -DAY_MS) },
    { weight: 1, arbitrary: fc.integer({ min: -3 * MINUTE_MS, max: -1 }) },
  ),
  { minLength: 1, maxLength: 60 },
);

function play(rule: BanRule, quota: Quotas, times: readonly number[]): Verdict[] {
  let state: Counts = UNUSED;
  return times.map((now) => {
    const { verdict, next } = decide(Object.freeze({ ...state }), quota, rule, now);
    state = next;
    return verdict;
  });
}

/** The admitted requests of one window, by their times. */
class WindowHistory {
  private number = -1;
  private admitted: number[] = [];

  constructor(
    private readonly windowMs: number,
    private readonly limit: number,
  ) {}

  /** Moves to the window of this time. */
  at(now: number): this {
    const number = Math.floor(now / this.windowMs);
    if (number !== this.number) {
      this.number = number;
      this.admitted = [];
    }
    return this;
  }

  get isFree(): boolean {
    return this.admitted.length < this.limit;
  }

  admit(now: number): void {
    this.admitted.push(now);
  }

  verdict(banEndSeconds?: number): WindowVerdict {
    const resetAtSeconds = banEndSeconds ?? ((this.number + 1) * this.windowMs) / 1_000;
    return { limit: this.limit, remaining: this.limit - this.admitted.length, resetAtSeconds };
  }
}

/**
 * A second implementation of the rules, from the whole history instead of from counters. It is slow and simple, and shares
 * no code with the decision.
 */
function verdictsByHistory(rule: BanRule, quota: Quotas, times: readonly number[]): Verdict[] {
  const minute = new WindowHistory(MINUTE_MS, quota.requestsPerMinute);
  const day = new WindowHistory(DAY_MS, quota.requestsPerDay);
  const windowMs = rule.windowSeconds * 1_000;
  /** The rejections that count in the ban window, and all since an admitted request or its start. */
  let counted: number[] = [];
  let burst: number[] = [];
  let banBeganMs = -Infinity;
  const outcomeAt = (now: number): Verdict['outcome'] => {
    // No ban has begun in the future.
    banBeganMs = Math.min(banBeganMs, now);
    if (now - banBeganMs < rule.durationSeconds * 1_000) {
      return 'banned';
    }
    if (minute.at(now).isFree && day.at(now).isFree) {
      minute.admit(now);
      day.admit(now);
      burst = [];
      return 'admitted';
    }
    const [windowStart = Infinity] = counted;
    const beginsWindow = now < windowStart || now >= windowStart + windowMs;
    burst = beginsWindow ? [now] : [...burst, now];
    // Those that a client may have sent before it received the first one of the burst do not count.
    const isRepeated = now - burst[0]! >= Math.min(2_000, windowMs / 2);
    counted = beginsWindow ? [now] : [...counted, ...(isRepeated ? [now] : [])];
    if (rule.threshold > 0 && counted.length > 1 && counted.length >= rule.threshold) {
      counted = [];
      banBeganMs = now;
      return 'banned';
    }
    return 'limited';
  };
  return times.map((now) => {
    const outcome = outcomeAt(now);
    const banEnd = outcome === 'banned' ? Math.ceil(banBeganMs / 1_000 + rule.durationSeconds) : undefined;
    return {
      outcome,
      minute: minute.at(now).verdict(banEnd),
      day: day.at(now).verdict(banEnd),
      decidedAtMs: now,
    };
  });
}

it('for any sequence of requests, decide returns the verdict that follows from the whole history', () => {
  fc.assert(
    fc.property(rules, quotas, steps, (rule, quota, advances) => {
      let now = START;
      const times = advances.map((advance) => (now += advance));
      expect(play(rule, quota, times)).toStrictEqual(verdictsByHistory(rule, quota, times));
    }),
    { numRuns: 1_000 },
  );
});

it('decide applies changed quotas to the requests counted before, of which none remain if there were more', () => {
  const rule: BanRule = { threshold: 0, windowSeconds: 1, durationSeconds: 1 };
  let counts: Counts = UNUSED;
  for (let request = 0; request < 9; request++) {
    counts = decide(counts, { requestsPerMinute: 9, requestsPerDay: 9 }, rule, START).next;
  }
  const decideWith = (requestsPerMinute: number, requestsPerDay: number): Verdict =>
    decide(counts, { requestsPerMinute, requestsPerDay }, rule, START).verdict;
  expect(decideWith(10, 20)).toMatchObject({ outcome: 'admitted', minute: { remaining: 0 }, day: { remaining: 10 } });
  expect(decideWith(5, 4)).toMatchObject({ outcome: 'limited', minute: { remaining: 0 }, day: { remaining: 0 } });
});

describe('decide, for rejections', () => {
  const ONE: Quotas = { requestsPerMinute: 1, requestsPerDay: 1_000 };

  test.each<[threshold: number, windowSeconds: number, times: number[], banned: number | undefined]>([
    // Those of a burst count once, however many they are.
    [2, 60, [0, 0, 1, 1_999, 1_999, 1_999], undefined],
    [2, 60, [0, 2_000], 2_000],
    [3, 60, [0, 500, 2_000, 2_001], 2_001],
    // The first rejection of a window never bans.
    [1, 60, [0, 1_999, 2_000], 2_000],
    // Half of a short window.
    [2, 3, [0, 1_499, 1_500], 1_500],
    // The next window begins with a rejection that counts, and again with those in flight.
    [2, 3, [0, 3_000, 4_499, 4_500], 4_500],
    // At 60,000 ms a minute begins and a request is admitted. The first rejection after it does not count, nor do those in flight.
    [2, 120, [0, 60_000, 60_000, 60_000, 61_999, 62_000], 62_000],
    // An admitted request resets no rejections.
    [4, 120, [0, 2_000, 60_000, 60_000, 62_000, 62_001], 62_001],
  ])('with threshold %i and a window of %i s at %j ms bans at %s ms', (threshold, windowSeconds, times, banned) => {
    const rule: BanRule = { threshold, windowSeconds, durationSeconds: 300 };
    let counts = decide(UNUSED, ONE, rule, START).next;
    const bans = times.filter((time) => {
      const { verdict, next } = decide(counts, ONE, rule, START + time);
      counts = next;
      return verdict.outcome === 'banned';
    });
    expect(bans[0]).toBe(banned);
  });
});
