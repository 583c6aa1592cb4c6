import type { Quotas } from '../plans/plans.js';

export const MINUTE_MS = 60_000;
export const DAY_MS = 86_400_000;

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
  /** Unix milliseconds, by the clock that decided; a lower bound where that clock is estimated. */
  readonly decidedAtMs: number;
}

/** When repeated rejections lead to a temporary ban. */
export interface BanRule {
  /** Rejections within the window that ban the key or address; 0 turns bans off. */
  readonly threshold: number;
  /** Begins with a rejection and does not slide, so that a start and a count describe it. */
  readonly windowSeconds: number;
  readonly durationSeconds: number;
}

/** The counts of one key or address between its requests. */
export interface Counts {
  /** Unix milliseconds in the minute and day that are counted. */
  readonly countedMs: number;
  readonly minuteUsed: number;
  readonly dayUsed: number;
  /** Unix milliseconds of the rejection that began the ban window. */
  readonly banWindowStartMs: number;
  /** Rejections in the ban window; fewer than the ban threshold. */
  readonly rejections: number;
  /** Unix milliseconds; 0 when there has been no ban. */
  readonly bannedUntilMs: number;
}

/** The counts without any requests. */
export const UNUSED: Counts = Object.freeze({
  countedMs: 0,
  minuteUsed: 0,
  dayUsed: 0,
  banWindowStartMs: 0,
  rejections: 0,
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
 */
export function decide(counts: Counts, quotas: Quotas, rule: BanRule, nowMs: number): Decision {
  const current = inWindowsAt(counts, nowMs);
  if (nowMs < current.bannedUntilMs) {
    return { verdict: verdictOf('banned', current, quotas, nowMs), next: current };
  }
  if (current.minuteUsed < quotas.requestsPerMinute && current.dayUsed < quotas.requestsPerDay) {
    const next = { ...current, minuteUsed: current.minuteUsed + 1, dayUsed: current.dayUsed + 1 };
    return { verdict: verdictOf('admitted', next, quotas, nowMs), next };
  }
  const next = withRejection(current, rule, nowMs);
  return { verdict: verdictOf(nowMs < next.bannedUntilMs ? 'banned' : 'limited', next, quotas, nowMs), next };
}

/** The verdict for a key or address that has used nothing. */
export function verdictOfUnused(quotas: Quotas, nowMs: number): Verdict {
  return verdictOf('admitted', inWindowsAt(UNUSED, nowMs), quotas, nowMs);
}

/** The counts in the windows of this time: a window that has ended starts over. */
function inWindowsAt(counts: Counts, nowMs: number): Counts {
  const isIn = (windowMs: number): boolean => Math.floor(counts.countedMs / windowMs) === Math.floor(nowMs / windowMs);
  // A day ends with one of its minutes.
  return isIn(MINUTE_MS)
    ? counts
    : { ...counts, countedMs: nowMs, minuteUsed: 0, dayUsed: isIn(DAY_MS) ? counts.dayUsed : 0 };
}

/** Adds a rejection. One that reaches the threshold starts a ban and resets the rejections; the windows continue. */
function withRejection(counts: Counts, rule: BanRule, nowMs: number): Counts {
  if (rule.threshold === 0) {
    return counts;
  }
  const isInWindow = nowMs < counts.banWindowStartMs + rule.windowSeconds * 1_000;
  const rejections = isInWindow ? counts.rejections + 1 : 1;
  return rejections < rule.threshold
    ? { ...counts, banWindowStartMs: isInWindow ? counts.banWindowStartMs : nowMs, rejections }
    : { ...counts, banWindowStartMs: 0, rejections: 0, bannedUntilMs: nowMs + rule.durationSeconds * 1_000 };
}

/** An outcome with both windows, which contain `nowMs`. */
export function verdictOf(outcome: Verdict['outcome'], counts: Counts, quotas: Quotas, nowMs: number): Verdict {
  const banEndSeconds = outcome === 'banned' ? Math.ceil(counts.bannedUntilMs / 1_000) : undefined;
  return {
    outcome,
    minute: {
      limit: quotas.requestsPerMinute,
      remaining: Math.max(0, quotas.requestsPerMinute - counts.minuteUsed),
      resetAtSeconds: banEndSeconds ?? windowEndSeconds(nowMs, MINUTE_MS),
    },
    day: {
      limit: quotas.requestsPerDay,
      remaining: Math.max(0, quotas.requestsPerDay - counts.dayUsed),
      resetAtSeconds: banEndSeconds ?? windowEndSeconds(nowMs, DAY_MS),
    },
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
