import { UNUSED, type Verdict, verdictOf } from '../../src/rate-limit/decision.js';
import { rateLimitHeaders } from '../../src/rate-limit/headers.js';

const NOON_30 = Date.parse('2026-11-21T12:00:30.000Z');
const MINUTE_END = Date.parse('2026-11-21T12:01:00Z') / 1_000;
const DAY_END = Date.parse('2026-11-22T00:00:00Z') / 1_000;

interface Remaining {
  readonly minute: readonly [remaining: number, limit: number];
  readonly day: readonly [remaining: number, limit: number];
}

function headersOf({ minute, day }: Remaining, overrides: Partial<Verdict> = {}): Record<string, string> {
  const verdict: Verdict = {
    outcome: 'admitted',
    minute: { remaining: minute[0], limit: minute[1], resetAtSeconds: MINUTE_END },
    day: { remaining: day[0], limit: day[1], resetAtSeconds: DAY_END },
    decidedAtMs: NOON_30,
    ...overrides,
  };
  return Object.fromEntries(rateLimitHeaders(verdict));
}

describe('the headers of an admitted request', () => {
  it('show the published triple and both windows of the draft', () => {
    expect(headersOf({ minute: [59, 60], day: [999, 1_000] })).toEqual({
      'X-RateLimit-Limit': '60',
      'X-RateLimit-Remaining': '59',
      'X-RateLimit-Reset': String(MINUTE_END),
      'RateLimit-Policy': '"minute";q=60;w=60, "day";q=1000;w=86400',
      // 12:00:30 to 12:01:00 is 30 s; to midnight 12 h less 30 s, 43,170 s.
      RateLimit: '"minute";r=59;t=30, "day";r=999;t=43170',
    });
  });

  it.each<[Remaining, string, string, number]>([
    [{ minute: [30, 60], day: [940, 1_000] }, '60', '30', MINUTE_END],
    [{ minute: [59, 60], day: [58, 1_000] }, '1000', '58', DAY_END],
    // A tie goes to the longer window: waiting for the minute would not help.
    [{ minute: [40, 60], day: [40, 1_000] }, '1000', '40', DAY_END],
  ])('show the window with the fewest requests: of %j Limit %s, Remaining %s and Reset %s', (counts, ...triple) => {
    const headers = headersOf(counts);
    const [limit, remaining, reset] = triple;
    expect([headers['X-RateLimit-Limit'], headers['X-RateLimit-Remaining']]).toEqual([limit, remaining]);
    expect(headers['X-RateLimit-Reset']).toBe(String(reset));
  });
});

describe('the headers of a limited request', () => {
  it.each<[string, Remaining, string, number, string]>([
    ['the minute when only the minute is exhausted', { minute: [0, 60], day: [940, 1_000] }, '60', MINUTE_END, '30'],
    ['the day when only the day is exhausted', { minute: [60, 60], day: [0, 1_000] }, '1000', DAY_END, '43170'],
    ['the later reset when both are exhausted', { minute: [0, 60], day: [0, 1_000] }, '1000', DAY_END, '43170'],
  ])('show %s', (_window, counts, limit, reset, retryAfter) => {
    expect(headersOf(counts, { outcome: 'limited' })).toMatchObject({
      'X-RateLimit-Limit': limit,
      'X-RateLimit-Remaining': '0',
      'X-RateLimit-Reset': String(reset),
      'Retry-After': retryAfter,
    });
  });

  it.each([
    ['2026-11-21T12:00:30.600Z', '30'], // 29.4 s: not before the reset
    ['2026-11-21T12:01:00.000Z', '1'], // the clock of the store is ahead: still never 0
  ])('at %s have Retry-After %s', (now, retryAfter) => {
    const verdict = { outcome: 'limited', decidedAtMs: Date.parse(now) } as const;
    expect(headersOf({ minute: [0, 60], day: [940, 1_000] }, verdict)['Retry-After']).toBe(retryAfter);
  });
});

it.each([
  // now         banned until        Reset, rounded up     Retry-After
  ['12:00:30.500', '12:05:30.500', '2026-11-21T12:05:31Z', '301'], // not before the reset
  ['12:00:30.000', '12:00:31.000', '2026-11-21T12:00:31Z', '1'], // before the end of the minute
])(
  'the headers of a banned request at %s until %s have Reset %s and Retry-After %s',
  (now, until, reset, retryAfter) => {
    const bannedUntilMs = Date.parse(`2026-11-21T${until}Z`);
    const counts = { ...UNUSED, day: { used: 60, endSeconds: DAY_END }, bannedUntilMs };
    const quotas = { requestsPerMinute: 60, requestsPerDay: 1_000 };
    const verdict = verdictOf('banned', counts, quotas, Date.parse(`2026-11-21T${now}Z`));
    expect(Object.fromEntries(rateLimitHeaders(verdict))).toEqual({
      'X-RateLimit-Limit': '60',
      'X-RateLimit-Remaining': '0',
      'X-RateLimit-Reset': String(Date.parse(reset) / 1_000),
      'Retry-After': retryAfter,
      'RateLimit-Policy': '"minute";q=60;w=60, "day";q=1000;w=86400',
      RateLimit: `"minute";r=0;t=${retryAfter}, "day";r=0;t=${retryAfter}`,
    });
  },
);
