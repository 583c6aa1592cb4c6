import type { Clock } from '../common/clock.js';
import type { Quotas } from '../plans/plans.js';
import { type BanRule, decide, type Decision, type SubjectState } from './decision.js';
import { SubjectCache } from './subject-cache.js';
import type { Verdict } from './verdict.js';

/** How long a cached rejection is used before one request asks Redis again, for bans and unbans by other processes. */
const RECHECK_MS = 1_000;

/** The state of a subject that has been rejected or has used up a window. */
export interface CachedSubject {
  readonly state: SubjectState;
  /**
   * The clock of Redis less ours when the command was sent, in milliseconds. An upper bound: a cached window ends at
   * the latest when it ends in Redis, so no reset of the past is reported.
   */
  readonly clockOffsetMs: number;
  /** By how much the offset may be too high. */
  readonly latencyMs: number;
  /** Our clock when Redis was last asked. */
  readonly checkedAtMs: number;
}

/**
 * Rejects subjects that are over their limit without asking Redis: counts only grow within a window. Counts the rejections
 * that this process makes.
 */
export class RejectionCache {
  readonly #subjects = new SubjectCache<CachedSubject>();

  /** @param onBan called for each ban with its end in Unix milliseconds by the clock of Redis */
  constructor(
    private readonly clock: Clock,
    private readonly banRule: BanRule,
    private readonly onBan: (subject: string, bannedUntilMs: number) => void,
  ) {}

  get(subject: string): CachedSubject | undefined {
    return this.#subjects.get(subject);
  }

  set(subject: string, cached: CachedSubject): void {
    this.#subjects.set(subject, cached);
  }

  delete(subject: string): void {
    this.#subjects.delete(subject);
  }

  /** The rejection of a request; undefined when Redis has to decide. */
  reject(subject: string, quotas: Quotas): Verdict | undefined {
    const cached = this.get(subject);
    if (cached === undefined) {
      return undefined;
    }
    const { verdict, next } = this.#decide(cached, quotas);
    if (verdict.outcome === 'admitted') {
      return undefined;
    }
    this.setRejected(subject, cached, next);
    // A lower bound of the time, so that Retry-After is never too short.
    return { ...verdict, decidedAtMs: verdict.decidedAtMs - cached.latencyMs };
  }

  /** Whether a request would be rejected now. Counts nothing. */
  rejects(subject: string, quotas: Quotas): boolean {
    const cached = this.get(subject);
    return cached !== undefined && this.#decide(cached, quotas).verdict.outcome !== 'admitted';
  }

  /** Keeps the state after a rejection, which may have started a ban. */
  setRejected(subject: string, before: CachedSubject, state: SubjectState): void {
    this.set(subject, { ...before, state });
    if (state.bannedUntilMs > before.state.bannedUntilMs) {
      this.onBan(subject, state.bannedUntilMs);
    }
  }

  /** Whether Redis is to be asked again. True once a second for each cached subject, so that of many requests one asks. */
  takeRecheck(subject: string): boolean {
    const cached = this.get(subject);
    const nowMs = this.clock.now();
    if (cached === undefined || Math.abs(nowMs - cached.checkedAtMs) < RECHECK_MS) {
      return false;
    }
    this.set(subject, { ...cached, checkedAtMs: nowMs });
    return true;
  }

  #decide({ state, clockOffsetMs }: CachedSubject, quotas: Quotas): Decision {
    return decide(state, quotas, this.banRule, this.clock.now() + clockOffsetMs);
  }
}
