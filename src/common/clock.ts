/** The one source of time for every rule that depends on it, so that tests set it instead of waiting for it. */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number;
}

/** Injection token of the {@link Clock}. */
export const CLOCK = Symbol('clock');

export const systemClock: Clock = { now: () => Date.now() };
