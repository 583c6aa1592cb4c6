/** The caller's limits according to the headers of a response. */
export interface LimitState {
  readonly limit: number;
  readonly remaining: number;
  /** Unix seconds. */
  readonly resetAt: number;
  readonly minute: WindowState;
  readonly day: WindowState;
  /** Seconds; undefined without the header. */
  readonly retryAfter: number | undefined;
}

interface WindowState {
  readonly quota: number;
  readonly remaining: number;
  readonly resetsInSeconds: number;
}

const POLICY = /^"minute";q=(\d+);w=60, "day";q=(\d+);w=86400$/;
const STATE = /^"minute";r=(\d+);t=(\d+), "day";r=(\d+);t=(\d+)$/;

/**
 * Parses the limit headers. Checks their format, and that `X-RateLimit-*` show the window of `RateLimit` with the fewest
 * requests remaining, or the longer one on a tie.
 * @param nowMs the service's clock at the response, in Unix milliseconds
 */
export function parseLimitHeaders(headers: Headers, nowMs: number): LimitState {
  const numbers = (name: string, form = /^(\d+)$/): number[] => {
    const value = headers.get(name);
    expect([name, value]).toEqual([name, expect.stringMatching(form)]);
    return form
      .exec(value ?? '')!
      .slice(1)
      .map(Number);
  };
  const [minuteQuota, dayQuota] = numbers('ratelimit-policy', POLICY) as [number, number];
  const [left, seconds, dayLeft, daySeconds] = numbers('ratelimit', STATE) as [number, number, number, number];
  const state: LimitState = {
    limit: numbers('x-ratelimit-limit')[0]!,
    remaining: numbers('x-ratelimit-remaining')[0]!,
    resetAt: numbers('x-ratelimit-reset')[0]!,
    minute: { quota: minuteQuota, remaining: left, resetsInSeconds: seconds },
    day: { quota: dayQuota, remaining: dayLeft, resetsInSeconds: daySeconds },
    retryAfter: headers.has('retry-after') ? numbers('retry-after')[0] : undefined,
  };
  const binding = left < dayLeft ? state.minute : state.day;
  const resetAt = Math.floor(nowMs / 1_000) + binding.resetsInSeconds;
  expect([state.remaining, state.resetAt]).toEqual([binding.remaining, resetAt]);
  // During a ban both windows show 0 remaining until its end, and the limit is that of the exceeded window.
  const isBan = left === 0 && dayLeft === 0 && seconds === daySeconds;
  expect(isBan ? [minuteQuota, dayQuota] : [binding.quota]).toContain(state.limit);
  return state;
}
