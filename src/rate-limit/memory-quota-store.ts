import type { Clock } from '../common/clock.js';
import { type BanRule, decide, type SubjectState, UNUSED } from './decision.js';
import type { Quotas } from '../plans/plans.js';
import type { QuotaStore } from './quota-store.js';
import { SubjectCache } from './subject-cache.js';
import type { Verdict } from './verdict.js';

/** Counts in the memory of this process: exact for one process, O(1) in time and memory per subject. */
export class MemoryQuotaStore implements QuotaStore {
  readonly #states = new SubjectCache<SubjectState>();

  constructor(
    private readonly clock: Clock,
    private readonly banRule: BanRule,
    private readonly onBan: (subject: string) => void = () => undefined,
  ) {}

  consume(subject: string, quotas: Quotas): Verdict {
    const state = this.#states.get(subject) ?? UNUSED;
    const { verdict, next } = decide(state, quotas, this.banRule, this.clock.now());
    this.#states.set(subject, next);
    if (next.bannedUntilMs > state.bannedUntilMs) {
      this.onBan(subject);
    }
    return verdict;
  }

  liftBan(subject: string): void {
    const state = this.#states.get(subject);
    if (state !== undefined) {
      this.#states.set(subject, { ...state, refusedAtMs: UNUSED.refusedAtMs, bannedUntilMs: 0 });
    }
  }
}
