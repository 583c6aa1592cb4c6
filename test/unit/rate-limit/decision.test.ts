import { type BanRule, decide, type Decision, type Counts, UNUSED } from '../../../src/rate-limit/decision.js';
import type { Quotas } from '../../../src/plans/plans.js';

const FREE: Quotas = { requestsPerMinute: 60, requestsPerDay: 1_000 };
const NO_BANS: BanRule = { threshold: 0, windowSeconds: 60, durationSeconds: 300 };
const TEN_IN_A_MINUTE: BanRule = { threshold: 10, windowSeconds: 60, durationSeconds: 300 };

const at = (iso: string): number => Date.parse(iso);
const seconds = (iso: string): number => at(iso) / 1_000;

const NOON = at('2026-11-21T12:00:30.000Z');
const MINUTE_END = seconds('2026-11-21T12:01:00Z');
const DAY_END = seconds('2026-11-22T00:00:00Z');

function used(minuteUsed: number, dayUsed: number, overrides: Partial<Counts> = {}): Counts {
  return { ...UNUSED, minuteEndSeconds: MINUTE_END, dayEndSeconds: DAY_END, minuteUsed, dayUsed, ...overrides };
}

/** Decides one request at each time, each with the state after the previous one. */
function play(state: Counts, quotas: Quotas, rule: BanRule, times: readonly number[]): Decision[] {
  const decisions: Decision[] = [];
  let current = state;
  for (const now of times) {
    const decision = decide(current, quotas, rule, now);
    decisions.push(decision);
    current = decision.next;
  }
  return decisions;
}

function outcomes(decisions: readonly Decision[]): string[] {
  return decisions.map(({ verdict }) => verdict.outcome);
}

describe('decide on a Free plan (60 per minute, 1,000 per day)', () => {
  test.each([
    // used before: minute, day     outcome    used after: minute, day
    { minute: 0, day: 0, outcome: 'admitted', minuteAfter: 1, dayAfter: 1 },
    { minute: 1, day: 1, outcome: 'admitted', minuteAfter: 2, dayAfter: 2 },
    { minute: 59, day: 59, outcome: 'admitted', minuteAfter: 60, dayAfter: 60 },
    { minute: 60, day: 60, outcome: 'limited', minuteAfter: 60, dayAfter: 60 },
    // Only the minute is exhausted: the rejection must not count in the day.
    { minute: 60, day: 999, outcome: 'limited', minuteAfter: 60, dayAfter: 999 },
    { minute: 59, day: 999, outcome: 'admitted', minuteAfter: 60, dayAfter: 1_000 },
    // Only the day is exhausted: the rejection must not count in the minute.
    { minute: 0, day: 1_000, outcome: 'limited', minuteAfter: 0, dayAfter: 1_000 },
    { minute: 59, day: 1_000, outcome: 'limited', minuteAfter: 59, dayAfter: 1_000 },
    { minute: 60, day: 1_000, outcome: 'limited', minuteAfter: 60, dayAfter: 1_000 },
    // Counts above the limit, as after a change to a smaller plan.
    { minute: 250, day: 5_000, outcome: 'limited', minuteAfter: 250, dayAfter: 5_000 },
  ])(
    'returns $outcome after $minute in the minute and $day in the day, and counts $minuteAfter and $dayAfter',
    ({ minute, day, outcome, minuteAfter, dayAfter }) => {
      const { verdict, next } = decide(used(minute, day), FREE, NO_BANS, NOON);
      expect(verdict).toEqual({
        outcome,
        minute: { limit: 60, remaining: Math.max(0, 60 - minuteAfter), resetAtSeconds: MINUTE_END },
        day: { limit: 1_000, remaining: Math.max(0, 1_000 - dayAfter), resetAtSeconds: DAY_END },
        decidedAtMs: NOON,
      });
      expect([next.minuteUsed, next.dayUsed]).toEqual([minuteAfter, dayAfter]);
    },
  );

  it('admits from the first millisecond of the next minute, with a new count', () => {
    const [last, first] = play(used(59, 59), FREE, NO_BANS, [
      at('2026-11-21T12:00:59.999Z'),
      at('2026-11-21T12:01:00.000Z'),
    ]);
    expect(last?.verdict).toMatchObject({ outcome: 'admitted', minute: { remaining: 0, resetAtSeconds: MINUTE_END } });
    expect(first?.verdict).toMatchObject({
      outcome: 'admitted',
      minute: { remaining: 59, resetAtSeconds: MINUTE_END + 60 },
      day: { remaining: 939, resetAtSeconds: DAY_END }, // 1,000 - 59 - 1 - 1
    });
  });

  it('rejects until the last millisecond of an exhausted day and admits from the first of the next', () => {
    const spent = used(0, 1_000);
    const [rejected, admitted] = play(spent, FREE, NO_BANS, [
      at('2026-11-21T23:59:59.999Z'),
      at('2026-11-22T00:00:00.000Z'),
    ]);
    expect(rejected?.verdict).toMatchObject({ outcome: 'limited', day: { remaining: 0, resetAtSeconds: DAY_END } });
    expect(admitted?.verdict).toMatchObject({
      outcome: 'admitted',
      minute: { remaining: 59, resetAtSeconds: seconds('2026-11-22T00:01:00Z') },
      day: { remaining: 999, resetAtSeconds: seconds('2026-11-23T00:00:00Z') },
    });
  });

  it('does not reuse the count of the same minute of another day', () => {
    const { verdict } = decide(used(60, 1_000), FREE, NO_BANS, NOON + 86_400_000);
    expect(verdict).toMatchObject({ outcome: 'admitted', minute: { remaining: 59 }, day: { remaining: 999 } });
  });

  it('applies changed quotas to the requests counted before', () => {
    const pro: Quotas = { requestsPerMinute: 300, requestsPerDay: 10_000 };
    expect(decide(used(60, 1_000), pro, NO_BANS, NOON).verdict).toMatchObject({
      outcome: 'admitted',
      minute: { limit: 300, remaining: 239 },
      day: { limit: 10_000, remaining: 8_999 },
    });
  });
});

describe('decide on bans', () => {
  const spent = used(60, 60);

  it('sets bannedUntilMs on banned verdicts only', () => {
    const decisions = play(spent, FREE, TEN_IN_A_MINUTE, Array<number>(11).fill(NOON));
    expect(decisions.map(({ verdict }) => 'bannedUntilMs' in verdict)).toEqual([
      ...Array<boolean>(9).fill(false),
      true,
      true,
    ]);
  });

  // Three rejections within 60 s cause a ban. The day is exhausted, so every request is rejected.
  const THREE: BanRule = { threshold: 3, windowSeconds: 60, durationSeconds: 300 };
  test.each([
    { offsets: [0, 0, 0], last: 'banned' },
    { offsets: [0, 30_000, 59_999], last: 'banned' }, // the last millisecond of the window
    { offsets: [0, 30_000, 60_000], last: 'limited' }, // begins the next window
    { offsets: [0, 30_000, 60_000, 89_999], last: 'limited' }, // the second of the window from 60 s on
    { offsets: [0, 30_000, 60_000, 89_999, 119_999], last: 'banned' },
    { offsets: [0, 59_999, 119_998, 179_997], last: 'limited' }, // never more than two within one window
    { offsets: [0, 1, 3_600_000], last: 'limited' },
  ])(
    'returns $last after rejections at $offsets ms, because a window lasts 60 s from its first rejection',
    ({ offsets, last }) => {
      const decisions = play(
        used(0, 1_000),
        FREE,
        THREE,
        offsets.map((offset) => NOON + offset),
      );
      expect(outcomes(decisions)).toEqual([...Array<string>(offsets.length - 1).fill('limited'), last]);
    },
  );

  it('ends a ban to the millisecond; the windows decide afterwards', () => {
    const [, , , during, after] = play(spent, FREE, THREE, [NOON, NOON, NOON, NOON + 299_999, NOON + 300_000]);
    expect(during?.verdict.outcome).toBe('banned');
    // Five minutes later a new minute has begun; the day still has 60 used.
    expect(after?.verdict).toMatchObject({ outcome: 'admitted', minute: { remaining: 59 }, day: { remaining: 939 } });
  });
});
