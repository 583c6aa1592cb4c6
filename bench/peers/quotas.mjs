/** The published quotas per plan; an Enterprise key has its own. */
const PLANS = {
  free: { perMinute: 60, perDay: 1_000 },
  pro: { perMinute: 300, perDay: 10_000 },
  business: { perMinute: 1_000, perDay: 100_000 },
};

export const ANONYMOUS = PLANS.free;

/** @param {{plan: string, requests_per_minute: number | null, requests_per_day: number | null}} row of `api_keys` */
export function quotasOf(row) {
  return PLANS[row.plan] ?? { perMinute: row.requests_per_minute, perDay: row.requests_per_day };
}

/**
 * The three published headers, of the window with fewer remaining requests, and `Retry-After` on a rejection.
 * @param {{perMinute: number, perDay: number}} quotas
 * @param {{admitted: boolean, minuteUsed: number, dayUsed: number, nowMs: number}} usage
 */
export function limitHeaders({ perMinute, perDay }, { admitted, minuteUsed, dayUsed, nowMs }) {
  const minuteLeft = Math.max(0, perMinute - minuteUsed);
  const dayLeft = Math.max(0, perDay - dayUsed);
  const [limit, left, windowMs] = minuteLeft < dayLeft ? [perMinute, minuteLeft, MINUTE_MS] : [perDay, dayLeft, DAY_MS];
  const resetAt = (Math.floor(nowMs / windowMs) + 1) * (windowMs / 1_000);
  const headers = { 'x-ratelimit-limit': limit, 'x-ratelimit-remaining': left, 'x-ratelimit-reset': resetAt };
  if (!admitted) {
    headers['retry-after'] = Math.max(1, resetAt - Math.floor(nowMs / 1_000));
  }
  return headers;
}

export const MINUTE_MS = 60_000;
export const DAY_MS = 86_400_000;
