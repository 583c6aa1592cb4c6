import { CUSTOM_QUOTAS, type Plan, PLAN_QUOTAS, PLANS } from '../../plans/plans.js';

/** Whether a plan fits what a key does. */
export interface PlanFit {
  /** Requests per day that 95 % of the days with requests stay within; null without requests. */
  readonly p95PerDay: number | null;
  /** Of the daily limit of the key; null for anonymous requests and deleted keys. */
  readonly share: number | null;
  /** 95 % of the days are not below the limit, so that nobody knows how many requests there would be without it. */
  readonly reachesLimit: boolean;
  /** The smallest plan with a higher daily limit; null when it is unknown. */
  readonly fits: Plan | null;
}

/** @param requestsPerDay the daily limit of the key; null for anonymous requests and deleted keys */
export function planFit(p95PerDay: number | null, requestsPerDay: number | null): PlanFit {
  if (requestsPerDay === null) {
    return { p95PerDay, share: null, reachesLimit: false, fits: null };
  }
  const share = (p95PerDay ?? 0) / requestsPerDay;
  if (p95PerDay === null) {
    return { p95PerDay, share, reachesLimit: false, fits: null };
  }
  // After a change of plan the limit of before may lie above that of now.
  return { p95PerDay, share, reachesLimit: p95PerDay >= requestsPerDay, fits: smallestPlanAbove(p95PerDay) };
}

/** The smallest value that at least 95 % of the values are not above; null when there are none. */
export function p95Of(values: readonly number[]): number | null {
  return values.toSorted((a, b) => a - b)[Math.ceil(values.length * 0.95) - 1] ?? null;
}

function smallestPlanAbove(requests: number): Plan {
  const fitting = PLANS.find((plan) => {
    const quotas = PLAN_QUOTAS[plan];
    return quotas === CUSTOM_QUOTAS || requests < quotas.requestsPerDay;
  });
  return fitting ?? 'enterprise';
}
