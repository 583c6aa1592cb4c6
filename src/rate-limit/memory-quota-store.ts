import type { Clock } from '../common/clock.js';
import type { Quotas } from '../plans/plans.js';
import { type BanRule, decide, type Decision, type SubjectState, UNUSED } from './decision.js';
import type { QuotaStore } from './quota-store.js';
import { SubjectCache } from './subject-cache.js';
import type { Verdict } from './verdict.js';

/** Counts in the memory of this process: exact for one process, O(1) in time and memory per subject. */
export class MemoryQuotaStore implements QuotaStore {
  readonly #states = new SubjectCache<SubjectState>();

  /** @param onBan called for each ban with its end in Unix milliseconds */
  constructor(
    private readonly clock: Clock,
    private readonly banRule: BanRule,
    private readonly onBan: (subject: string, bannedUntilMs: number) => void = () => undefined,
  ) {}

  consume(subject: string, quotas: Quotas): Verdict {
    const state = this.#states.get(subject) ?? UNUSED;
    const { verdict, next } = this.#decide(state, quotas);
    this.#states.set(subject, next);
    if (next.bannedUntilMs > state.bannedUntilMs) {
      this.onBan(subject, next.bannedUntilMs);
    }
    return verdict;
  }

  rejects(subject: string, quotas: Quotas): boolean {
    const state = this.#states.get(subject);
    return state !== undefined && this.#decide(state, quotas).verdict.outcome !== 'admitted';
  }

  liftBan(subject: string): void {
    const state = this.#states.get(subject);
    if (state !== undefined) {
      this.#states.set(subject, { ...state, rejectedAtMs: UNUSED.rejectedAtMs, bannedUntilMs: 0 });
    }
  }

  #decide(state: SubjectState, quotas: Quotas): Decision {
    return decide(state, quotas, this.banRule, this.clock.now());
  }
}
