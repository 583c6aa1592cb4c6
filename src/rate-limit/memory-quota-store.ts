import { LRUCache } from 'lru-cache';
import type { Clock } from '../common/clock.js';
import type { Quotas } from '../plans/plans.js';
import { type BanRule, type Counts, decide, NO_REJECTIONS, UNUSED, type Verdict } from './decision.js';

/**
 * Keys, or addresses, that are counted at once; the least recently used is evicted first. Far above the number of keys
 * that call in one day; it bounds the memory that a flood from many addresses can use (about 300 bytes each).
 */
const COUNTED_MAX = 100_000;

/**
 * Counts requests. One call decides ban, minute and day together and counts the request only when all of them admit it,
 * atomically for all processes that share the store.
 */
export interface QuotaStore {
  /** Decides and counts one request of a key or address. */
  consume(id: string, quotas: Quotas): Verdict | Promise<Verdict>;

  /** Ends a ban and resets the rejections that led to it; the counts of the windows stay. */
  liftBan(id: string): void;
}

export interface QuotaStoreOptions {
  readonly clock: Clock;
  readonly banRule: BanRule;
  /** Counts each ban that a request of this process starts. */
  readonly bans?: { inc(): void };
}

/** Counts in the memory of this process: exact for one process, O(1) in time and memory per key or address. */
export class MemoryQuotaStore implements QuotaStore {
  // With `max` the package would allocate all of it at the start, 2 MB.
  readonly #counts = new LRUCache<string, Counts>({ maxSize: COUNTED_MAX, sizeCalculation: () => 1 });

  constructor(private readonly options: QuotaStoreOptions) {}

  consume(id: string, quotas: Quotas): Verdict {
    const { clock, banRule, bans } = this.options;
    const counts = this.#counts.get(id) ?? UNUSED;
    const { verdict, next } = decide(counts, quotas, banRule, clock.now());
    this.#counts.set(id, next);
    if (next.bannedUntilMs > counts.bannedUntilMs) {
      bans?.inc();
    }
    return verdict;
  }

  liftBan(id: string): void {
    const counts = this.#counts.get(id);
    if (counts !== undefined) {
      this.#counts.set(id, { ...counts, ...NO_REJECTIONS, bannedUntilMs: 0 });
    }
  }
}
