import type { Quotas } from '../plans/plans.js';

export const MINUTE_MS = 60_000;
export const DAY_MS = 86_400_000;
/** So long after a first rejection a client may still have requests in flight that it sent before. */
export const IN_FLIGHT_MS = 2_000;

/**
 * The end of the fixed window that contains `nowMs`, in Unix seconds. Windows are aligned to the UTC minute and the UTC
 * day, so that all replicas report the same reset.
 */
export function windowEndSeconds(nowMs: number, windowMs: number): number {
  return ((Math.floor(nowMs / windowMs) + 1) * windowMs) / 1_000;
}

/** One window after the request was decided. */
export interface WindowVerdict {
  /** The quota of the window. At least 1. */
  readonly limit: number;
  /** Requests remaining in the window. 0 to `limit` - 1 after an admitted request. */
  readonly remaining: number;
  /** Unix seconds at which the window ends and its count starts over. During a ban, the end of the ban, rounded up. */
  readonly resetAtSeconds: number;
}

/** The decision about one request. A rejection is a value until its response is written. */
export interface Verdict {
  readonly outcome: 'admitted' | 'limited' | 'banned';
  readonly minute: WindowVerdict;
  readonly day: WindowVerdict;
  /** Unix milliseconds, by the clock that decided. */
  readonly decidedAtMs: number;
}

/** When repeated rejections lead to a temporary ban. */
export interface BanRule {
  /**
   * Counted rejections within the window that ban the key or address; 0 turns bans off. The first one of a window never bans,
   * so 1 means the same as 2.
   */
  readonly threshold: number;
  /** Begins with a rejection and does not slide, so that a start and a count describe it. */
  readonly windowSeconds: number;
  readonly durationSeconds: number;
}

/** The requests counted in one window. */
export interface WindowCount {
  readonly used: number;
  /** Unix seconds at which the counted window ends. */
  readonly endSeconds: number;
}

/** The counts of one key or address between its requests. */
export interface Counts {
  readonly minute: WindowCount;
  readonly day: WindowCount;
  /** Unix milliseconds of the rejection that began the ban window. */
  readonly banWindowStartMs: number;
  /** Unix milliseconds of the first rejection since an admitted request or the start of the ban window; 0 if there is none. */
  readonly graceStartMs: number;
  /** Counted rejections in the ban window. */
  readonly rejections: number;
  /** Unix milliseconds; 0 when there has been no ban. */
  readonly bannedUntilMs: number;
}

/** The part of the counts from which the next ban is decided, before a rejection. */
export const NO_REJECTIONS = Object.freeze({ banWindowStartMs: 0, graceStartMs: 0, rejections: 0 });

/** The counts without any requests. */
export const UNUSED: Counts = Object.freeze({
  minute: Object.freeze({ used: 0, endSeconds: 0 }),
  day: Object.freeze({ used: 0, endSeconds: 0 }),
  ...NO_REJECTIONS,
  bannedUntilMs: 0,
});

/** The verdict for one request and the counts after it. */
export interface Decision {
  readonly verdict: Verdict;
  readonly next: Counts;
}

/**
 * Decides one request: ban, minute and day together. The request is counted in both windows when both admit it and in
 * neither otherwise. Pure: the same counts, quotas, rule and time always give the same decision.
 *
 * `redis-script.ts` has the same rule in Lua: change both. A model test compares them.
 */
export function decide(counts: Counts, quotas: Quotas, rule: BanRule, nowMs: number): Decision {
  const minute = windowAt(counts.minute, MINUTE_MS, nowMs);
  const day = windowAt(counts.day, DAY_MS, nowMs);
  // Whatever the clocks did, no ban ends later than its duration from now.
  const bannedUntilMs = Math.min(counts.bannedUntilMs, nowMs + rule.durationSeconds * 1_000);
  const current = { ...counts, minute, day, bannedUntilMs };
  if (nowMs < bannedUntilMs) {
    return { verdict: verdictOf('banned', current, quotas, nowMs), next: current };
  }
  if (minute.used < quotas.requestsPerMinute && day.used < quotas.requestsPerDay) {
    const next = {
      ...current,
      minute: { ...minute, used: minute.used + 1 },
      day: { ...day, used: day.used + 1 },
      graceStartMs: 0,
    };
    return { verdict: verdictOf('admitted', next, quotas, nowMs), next };
  }
  const next = withRejection(current, rule, nowMs);
  return { verdict: verdictOf(nowMs < next.bannedUntilMs ? 'banned' : 'limited', next, quotas, nowMs), next };
}

/** The verdict for a key or address that has used nothing. */
export function verdictOfUnused(quotas: Quotas, nowMs: number): Verdict {
  const minute = windowAt(UNUSED.minute, MINUTE_MS, nowMs);
  const day = windowAt(UNUSED.day, DAY_MS, nowMs);
  return verdictOf('admitted', { ...UNUSED, minute, day }, quotas, nowMs);
}

/** The window that contains `nowMs`: the counted one, or another one from 0. */
function windowAt(counted: WindowCount, windowMs: number, nowMs: number): WindowCount {
  const endSeconds = windowEndSeconds(nowMs, windowMs);
  return counted.endSeconds === endSeconds ? counted : { used: 0, endSeconds };
}

/**
 * Adds a rejection. A ban is for requests that are repeated after a 429: those that were in flight when the first one since
 * an admitted request was rejected do not count. One that reaches the threshold starts a ban and resets the rejections; the
 * windows continue.
 */
function withRejection(counts: Counts, { threshold, windowSeconds, durationSeconds }: BanRule, nowMs: number): Counts {
  if (threshold === 0) {
    return counts;
  }
  const windowMs = windowSeconds * 1_000;
  const elapsedMs = nowMs - counts.banWindowStartMs;
  // Negative after a clock was ahead: no ban could begin until then.
  if (elapsedMs < 0 || elapsedMs >= windowMs) {
    return { ...counts, banWindowStartMs: nowMs, graceStartMs: nowMs, rejections: 1 };
  }
  if (counts.graceStartMs === 0) {
    return { ...counts, graceStartMs: nowMs };
  }
  if (nowMs - counts.graceStartMs < Math.min(IN_FLIGHT_MS, windowMs / 2)) {
    return counts;
  }
  const rejections = counts.rejections + 1;
  return rejections < threshold
    ? { ...counts, rejections }
    : { ...counts, ...NO_REJECTIONS, bannedUntilMs: nowMs + durationSeconds * 1_000 };
}

/** An outcome with both windows, which are those of `nowMs`. */
export function verdictOf(outcome: Verdict['outcome'], counts: Counts, quotas: Quotas, nowMs: number): Verdict {
  const banEndSeconds = outcome === 'banned' ? Math.ceil(counts.bannedUntilMs / 1_000) : undefined;
  const windowVerdict = (limit: number, { used, endSeconds }: WindowCount): WindowVerdict => ({
    limit,
    remaining: Math.max(0, limit - used),
    resetAtSeconds: banEndSeconds ?? endSeconds,
  });
  return {
    outcome,
    minute: windowVerdict(quotas.requestsPerMinute, counts.minute),
    day: windowVerdict(quotas.requestsPerDay, counts.day),
    decidedAtMs: nowMs,
  };
}

/**
 * The window in the `X-RateLimit` headers: the one with the fewest requests remaining, or the longer one if they are equal.
 * For a rejected request that is the window that rejects, or the one that resets later if both do.
 */
export function bindingWindow({ minute, day }: Verdict): WindowVerdict {
  return minute.remaining < day.remaining ? minute : day;
}
