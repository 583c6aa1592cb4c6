/** One window as the client sees it after the request was decided. */
export interface WindowVerdict {
  /** Requests that the window admits. At least 1. */
  readonly limit: number;
  /** Requests that the window still admits. 0 to `limit` - 1 after an admitted request. */
  readonly remaining: number;
  /** Unix seconds at which the window ends and its count starts over. */
  readonly resetAtSeconds: number;
}

/** What was decided about one request. A refusal is a value until it reaches the guard. */
export interface Verdict {
  readonly outcome: 'admitted' | 'limited' | 'banned';
  readonly minute: WindowVerdict;
  readonly day: WindowVerdict;
  /** Unix milliseconds at which the ban ends; set exactly when the outcome is `banned`. */
  readonly bannedUntilMs?: number;
  /** Unix milliseconds, by the clock that decided. */
  readonly decidedAtMs: number;
}
