/** The source of time for every time-dependent rule of the service: `Date`. Tests set it instead of waiting. */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number;
}

/** Injection token of the {@link Clock}. */
export const CLOCK = Symbol('clock');
