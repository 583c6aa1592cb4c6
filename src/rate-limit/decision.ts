import type { Quotas } from '../plans/plans.js';
import type { Verdict } from './verdict.js';

export const MINUTE_MS = 60_000;
export const DAY_MS = 86_400_000;

/**
 * The end of the fixed window that contains `nowMs`, in Unix seconds. Windows are aligned to the UTC minute and the UTC
 * day, so that all replicas report the same reset.
 */
export function windowEndSeconds(nowMs: number, windowMs: number): number {
  return ((Math.floor(nowMs / windowMs) + 1) * windowMs) / 1_000;
}

/** When repeated rejections lead to a temporary ban. */
export interface BanRule {
  /** Rejections within the window that ban the subject; 0 turns bans off. */
  readonly threshold: number;
  /** Begins with a rejection and does not slide, so that a start and a count describe it. */
  readonly windowSeconds: number;
  readonly durationSeconds: number;
}

/** The state of one subject between its requests. */
export interface SubjectState {
  /** Unix seconds at which the counted minute ends. */
  readonly minuteEndSeconds: number;
  readonly minuteUsed: number;
  /** Unix seconds at which the counted day ends. */
  readonly dayEndSeconds: number;
  readonly dayUsed: number;
  /** Unix milliseconds of the rejection that began the ban window. */
  readonly banWindowStartMs: number;
  /** Rejections in the ban window; fewer than the ban threshold. */
  readonly rejections: number;
  /** Unix milliseconds; 0 when there has been no ban. */
  readonly bannedUntilMs: number;
}

/** The state of a subject without any requests. */
export const UNUSED: SubjectState = Object.freeze({
  minuteEndSeconds: 0,
  minuteUsed: 0,
  dayEndSeconds: 0,
  dayUsed: 0,
  banWindowStartMs: 0,
  rejections: 0,
  bannedUntilMs: 0,
});

/** The verdict for one request and the state after it. */
export interface Decision {
  readonly verdict: Verdict;
  readonly next: SubjectState;
}

/**
 * Decides one request: ban, minute and day together. The request is counted in both windows when both admit it and in
 * neither otherwise. Pure: the same state, quotas, rule and time always give the same decision.
 */
export function decide(state: SubjectState, quotas: Quotas, rule: BanRule, nowMs: number): Decision {
  const current = inWindowsAt(state, nowMs);
  if (nowMs < current.bannedUntilMs) {
    return { verdict: verdictOf('banned', current, quotas, nowMs), next: current };
  }
  if (current.minuteUsed < quotas.requestsPerMinute && current.dayUsed < quotas.requestsPerDay) {
    const next = { ...current, minuteUsed: current.minuteUsed + 1, dayUsed: current.dayUsed + 1 };
    return { verdict: verdictOf('admitted', next, quotas, nowMs), next };
  }
  const next = withRejection(current, rule, nowMs);
  return { verdict: verdictOf(nowMs < next.bannedUntilMs ? 'banned' : 'limited', next, quotas, nowMs), next };
}

/** The verdict for a subject that has used nothing. */
export function verdictOfUnused(quotas: Quotas, nowMs: number): Verdict {
  return verdictOf('admitted', inWindowsAt(UNUSED, nowMs), quotas, nowMs);
}

/** The state with the windows of this time: a window that has ended starts over. */
function inWindowsAt(state: SubjectState, nowMs: number): SubjectState {
  const minuteEndSeconds = windowEndSeconds(nowMs, MINUTE_MS);
  const dayEndSeconds = windowEndSeconds(nowMs, DAY_MS);
  if (state.minuteEndSeconds === minuteEndSeconds && state.dayEndSeconds === dayEndSeconds) {
    return state;
  }
  return {
    ...state,
    minuteEndSeconds,
    minuteUsed: state.minuteEndSeconds === minuteEndSeconds ? state.minuteUsed : 0,
    dayEndSeconds,
    dayUsed: state.dayEndSeconds === dayEndSeconds ? state.dayUsed : 0,
  };
}

/** Adds a rejection. One that reaches the threshold starts a ban and resets the rejections; the windows continue. */
function withRejection(state: SubjectState, rule: BanRule, nowMs: number): SubjectState {
  if (rule.threshold === 0) {
    return state;
  }
  const isInWindow = nowMs < state.banWindowStartMs + rule.windowSeconds * 1_000;
  const rejections = isInWindow ? state.rejections + 1 : 1;
  return rejections < rule.threshold
    ? { ...state, banWindowStartMs: isInWindow ? state.banWindowStartMs : nowMs, rejections }
    : { ...state, banWindowStartMs: 0, rejections: 0, bannedUntilMs: nowMs + rule.durationSeconds * 1_000 };
}

/** An outcome with the state of both windows. */
export function verdictOf(outcome: Verdict['outcome'], state: SubjectState, quotas: Quotas, nowMs: number): Verdict {
  return {
    outcome,
    minute: {
      limit: quotas.requestsPerMinute,
      remaining: Math.max(0, quotas.requestsPerMinute - state.minuteUsed),
      resetAtSeconds: state.minuteEndSeconds,
    },
    day: {
      limit: quotas.requestsPerDay,
      remaining: Math.max(0, quotas.requestsPerDay - state.dayUsed),
      resetAtSeconds: state.dayEndSeconds,
    },
    ...(outcome === 'banned' ? { bannedUntilMs: state.bannedUntilMs } : {}),
    decidedAtMs: nowMs,
  };
}
