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
  const number = (name: string): number => Number(match(headers, name, /^(\d+)$/)[0]);
  const [minuteQuota = 0, dayQuota = 0] = match(headers, 'ratelimit-policy', POLICY).map(Number);
  const [minuteRemaining = 0, minuteSeconds = 0, dayRemaining = 0, daySeconds = 0] = match(
    headers,
    'ratelimit',
    STATE,
  ).map(Number);
  const state: LimitState = {
    limit: number('x-ratelimit-limit'),
    remaining: number('x-ratelimit-remaining'),
    resetAt: number('x-ratelimit-reset'),
    minute: { quota: minuteQuota, remaining: minuteRemaining, resetsInSeconds: minuteSeconds },
    day: { quota: dayQuota, remaining: dayRemaining, resetsInSeconds: daySeconds },
    retryAfter: headers.has('retry-after') ? number('retry-after') : undefined,
  };
  const binding = minuteRemaining < dayRemaining ? state.minute : state.day;
  expect([state.remaining, state.resetAt]).toEqual([
    binding.remaining,
    Math.floor(nowMs / 1_000) + binding.resetsInSeconds,
  ]);
  // During a ban both windows show 0 remaining until its end, and the limit is that of the exceeded window.
  const isBan = minuteRemaining === 0 && dayRemaining === 0 && minuteSeconds === daySeconds;
  expect(isBan ? [minuteQuota, dayQuota] : [binding.quota]).toContain(state.limit);
  return state;
}

function match(headers: Headers, name: string, form: RegExp): string[] {
  expect([name, headers.get(name)]).toEqual([name, expect.stringMatching(form)]);
  return form.exec(headers.get(name) ?? '')?.slice(1) ?? [];
}
