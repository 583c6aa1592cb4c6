/** How many requests a subject may make. Whole numbers, at least 1. */
export interface Quotas {
  readonly requestsPerMinute: number;
  readonly requestsPerDay: number;
}

export const PLANS = ['free', 'pro', 'business', 'enterprise'] as const;

export type Plan = (typeof PLANS)[number];

/** The plan whose figures come from the key and not from the table. */
export const CUSTOM_QUOTAS = 'custom';

/**
 * The published figures. The table is typed over the plans, so that a new plan does not compile without its figures;
 * the database column's enum is checked against {@link Plan} where keys are read.
 */
export const PLAN_QUOTAS: Readonly<Record<Plan, Quotas | typeof CUSTOM_QUOTAS>> = Object.freeze({
  free: Object.freeze({ requestsPerMinute: 60, requestsPerDay: 1_000 }),
  pro: Object.freeze({ requestsPerMinute: 300, requestsPerDay: 10_000 }),
  business: Object.freeze({ requestsPerMinute: 1_000, requestsPerDay: 100_000 }),
  enterprise: CUSTOM_QUOTAS,
});

/** The quotas of requests that carry no valid key, counted per address: the published figures of the Free plan. */
export const ANONYMOUS_QUOTAS: Quotas = Object.freeze({ requestsPerMinute: 60, requestsPerDay: 1_000 });

/**
 * The quotas of a key.
 * @param custom what was agreed for the key; used by plans with custom quotas only
 * @throws {Error} when the plan is unknown or its custom quotas are missing: an unreadable quota admits nobody
 */
export function quotasOf(
  plan: Plan,
  custom: { requestsPerMinute: number | null; requestsPerDay: number | null },
): Quotas {
  const quotas = PLAN_QUOTAS[plan] as Quotas | typeof CUSTOM_QUOTAS | undefined;
  if (quotas === undefined) {
    throw new Error(`No quotas are known for the plan "${plan}".`);
  }
  if (quotas !== CUSTOM_QUOTAS) {
    return quotas;
  }
  const { requestsPerMinute, requestsPerDay } = custom;
  if (requestsPerMinute === null || requestsPerDay === null) {
    throw new Error(`A key of the plan "${plan}" has no quotas of its own.`);
  }
  return { requestsPerMinute, requestsPerDay };
}
