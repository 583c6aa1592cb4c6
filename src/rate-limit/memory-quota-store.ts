import type { LRUCache } from 'lru-cache';
import type { Clock } from '../common/clock.js';
import { lruCache } from '../common/lru-cache.js';
import type { Quotas } from '../plans/plans.js';
import { type BanRule, decide, type SubjectState, UNUSED } from './decision.js';
import type { QuotaStore } from './quota-store.js';
import { isKeySubject } from './subject.js';
import type { Verdict } from './verdict.js';

/**
 * Keys, and addresses, that are counted at once; the least recently used is evicted first. Far above the number of keys
 * that call in one day; it bounds the memory that a flood from many addresses can use (about 300 bytes each).
 */
export const SUBJECTS_MAX = 100_000;

/** Counts in the memory of this process: exact for one process, O(1) in time and memory per subject. */
export class MemoryQuotaStore implements QuotaStore {
  readonly #keys = lruCache<string, SubjectState>(SUBJECTS_MAX);
  /** Apart from the keys, so that a flood from many addresses evicts no key. */
  readonly #addresses = lruCache<string, SubjectState>(SUBJECTS_MAX);

  /** @param onBan called for each ban, when it starts */
  constructor(
    private readonly clock: Clock,
    private readonly banRule: BanRule,
    private readonly onBan: (subject: string) => void = () => undefined,
  ) {}

  consume(subject: string, quotas: Quotas, nowMs = this.clock.now()): Verdict {
    const states = this.#statesOf(subject);
    const state = states.get(subject) ?? UNUSED;
    const { verdict, next } = decide(state, quotas, this.banRule, nowMs);
    states.set(subject, next);
    if (next.bannedUntilMs > state.bannedUntilMs) {
      this.onBan(subject);
    }
    return verdict;
  }

  liftBan(subject: string): void {
    const states = this.#statesOf(subject);
    const state = states.get(subject);
    if (state !== undefined && (state.rejections > 0 || state.bannedUntilMs > 0)) {
      states.set(subject, { ...state, rejections: 0, bannedUntilMs: 0 });
    }
  }

  #statesOf(subject: string): LRUCache<string, SubjectState> {
    return isKeySubject(subject) ? this.#keys : this.#addresses;
  }
}
