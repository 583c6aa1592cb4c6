import type { Plan, Quotas } from '../plans/plans.js';

/** A key that exists and is not revoked, as the request path knows it. */
export interface VerifiedKey {
  readonly id: string;
  readonly plan: Plan;
  readonly quotas: Quotas;
  /** Unix milliseconds from which the key is no longer good; undefined when it does not expire. */
  readonly expiresAtMs: number | undefined;
}
