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
