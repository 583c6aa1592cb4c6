import type { Quotas } from '../plans/plans.js';
import type { Verdict } from './verdict.js';

/**
 * Where requests are counted. One call decides ban, minute and day together and counts the request only when all of
 * them admit it, atomically for everybody who shares the store.
 */
export interface QuotaStore {
  /**
   * Decides and counts one request of a subject. Answers without a promise where it knows without waiting.
   * Never rejects: a store that cannot reach its memory decides by other means.
   */
  consume(subject: string, quotas: Quotas): Verdict | Promise<Verdict>;

  /** Ends a ban at once and forgets the refusals that led to it; what the windows have counted stays. */
  liftBan(subject: string): void | Promise<void>;
}

/** Injection token of the {@link QuotaStore}. */
export const QUOTA_STORE = Symbol('quota store');
