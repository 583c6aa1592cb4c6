import { CUSTOM_QUOTAS, type Plan, PLAN_QUOTAS, PLANS, type Quotas } from '../../plans/plans.js';

/** What a key asked for on 95 % of its days with requests; null without requests. */
export interface Demand {
  /** Requests per day, admitted and rejected. Those during a ban are repetitions. */
  readonly p95PerDay: number | null;
  /** Requests per day that were over a limit or during a ban. */
  readonly p95Denied: number | null;
}

/** Which plan fits a demand. */
export interface PlanFit {
  /** Of the daily limit of the key; null for anonymous requests and deleted keys. */
  readonly share: number | null;
  /** The smallest plan that may admit what the key asked for; null when it is unknown. */
  readonly fits: Plan | null;
  /** Even this plan, or these quotas of its own, may be too small. */
  readonly orHigher: boolean;
}

/**
 * The requests of a minute are not recorded, but they have bounds: a key that was rejected asked for more than its limit, and
 * at most for all of its rejections within one minute; another one asked for no more than its limit.
 * @param key without quotas for anonymous requests and deleted keys
 */
export function planFit({ p95PerDay, p95Denied }: Demand, key: { plan: Plan | null } & Nullable<Quotas>): PlanFit {
  const { plan, requestsPerMinute, requestsPerDay } = key;
  if (requestsPerMinute === null || requestsPerDay === null || p95PerDay === null || p95Denied === null) {
    return { share: requestsPerDay === null ? null : 0, fits: null, orHigher: false };
  }
  const perMinute = p95Denied > 0 ? requestsPerMinute + 1 : Math.min(requestsPerMinute, p95PerDay);
  const admits = (quotas: Quotas, minute: number, day: number): boolean =>
    minute <= quotas.requestsPerMinute && day <= quotas.requestsPerDay;
  const smallest = PLANS.find((candidate) => {
    const quotas = PLAN_QUOTAS[candidate];
    return quotas === CUSTOM_QUOTAS || admits(quotas, perMinute, p95PerDay);
  });
  const fits = smallest ?? 'enterprise';
  const quotas = fits === plan ? { requestsPerMinute, requestsPerDay } : PLAN_QUOTAS[fits];
  const perMinuteMax = p95Denied > 0 ? requestsPerMinute + p95Denied : perMinute;
  const orHigher = quotas !== CUSTOM_QUOTAS && !admits(quotas, perMinuteMax, p95PerDay + p95Denied);
  return { share: p95PerDay / requestsPerDay, fits, orHigher };
}

type Nullable<T> = { readonly [Name in keyof T]: T[Name] | null };
