/** Where a caller stands, as the headers of an answer say. */
export interface LimitState {
  readonly limit: number;
  readonly remaining: number;
  /** Unix seconds. */
  readonly resetAt: number;
  readonly minute: WindowState;
  readonly day: WindowState;
  /** Seconds; undefined where the header is not sent. */
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
 * Reads the limit headers and checks their form, and that the triple and the pair of the IETF draft tell one story: the
 * triple is that of the window with the fewest remaining, on a tie of the longer one.
 * @param nowMs the service's clock when it answered; Unix milliseconds
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
  // In a ban both windows show 0 until its end, and the limit is that of the window which was exceeded.
  const isBan = minuteRemaining === 0 && dayRemaining === 0 && minuteSeconds === daySeconds;
  expect(isBan ? [minuteQuota, dayQuota] : [binding.quota]).toContain(state.limit);
  return state;
}

function match(headers: Headers, name: string, form: RegExp): string[] {
  expect([name, headers.get(name)]).toEqual([name, expect.stringMatching(form)]);
  return form.exec(headers.get(name) ?? '')?.slice(1) ?? [];
}

/** Checks that an answer says where its caller stands, as every answer under the version segment does. */
export function expectLimitHeaders(headers: Headers | Readonly<Record<string, string | string[] | undefined>>): void {
  for (const name of ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset']) {
    expect([name, headers instanceof Headers ? headers.get(name) : headers[name]]).toEqual([
      name,
      expect.stringMatching(/^\d+$/),
    ]);
  }
}
