/** One window after the request was decided. */
export interface WindowVerdict {
  /** The quota of the window. At least 1. */
  readonly limit: number;
  /** Requests remaining in the window. 0 to `limit` - 1 after an admitted request. */
  readonly remaining: number;
  /** Unix seconds at which the window ends and its count starts over. */
  readonly resetAtSeconds: number;
}

/** The decision about one request. A rejection is a value until it reaches the guard. */
export interface Verdict {
  readonly outcome: 'admitted' | 'limited' | 'banned';
  readonly minute: WindowVerdict;
  readonly day: WindowVerdict;
  /** Unix milliseconds at which the ban ends; set exactly when the outcome is `banned`. */
  readonly bannedUntilMs?: number;
  /** Unix milliseconds, by the clock that decided; a lower bound where that clock is estimated. */
  readonly decidedAtMs: number;
}

/**
 * The window in the `X-RateLimit` headers: the one with the fewest requests remaining, or the longer one if they are equal.
 * For a rejected request that is the window that rejects, or the one that resets later if both do.
 */
export function bindingWindow({ minute, day }: Verdict): WindowVerdict {
  return minute.remaining < day.remaining ? minute : day;
}

/** Why a request got 429: the limit that it is over, or a ban. Undefined when it is admitted. */
export function rejectionReasonOf(verdict: Verdict): 'per_minute' | 'per_day' | 'banned' | undefined {
  switch (verdict.outcome) {
    case 'admitted':
      return undefined;
    case 'limited':
      return bindingWindow(verdict) === verdict.minute ? 'per_minute' : 'per_day';
    case 'banned':
      return 'banned';
  }
}
