import type { Quotas } from '../plans/plans.js';
import type { Verdict } from './verdict.js';

/**
 * Counts requests. One call decides ban, minute and day together and counts the request only when all of them admit it,
 * atomically for all processes that share the store.
 */
export interface QuotaStore {
  /**
   * Decides and counts one request of a subject. Returns without a promise when no round trip is needed.
   * A store that cannot reach its server counts in memory; whatever else fails rejects the promise.
   */
  consume(subject: string, quotas: Quotas): Verdict | Promise<Verdict>;

  /** Ends a ban and resets the rejections that led to it; the counts of the windows stay. */
  liftBan(subject: string): void;
}

/** Injection token of the {@link QuotaStore}. */
export const QUOTA_STORE = Symbol('quota store');
