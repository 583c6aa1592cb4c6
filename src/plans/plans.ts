/** The maximum numbers of requests of a key or address. Integers, at least 1. */
export interface Quotas {
  readonly requestsPerMinute: number;
  readonly requestsPerDay: number;
}

export const PLANS = ['free', 'pro', 'business', 'enterprise'] as const;

export type Plan = (typeof PLANS)[number];

/** Marks a plan whose quotas are set per key. */
export const CUSTOM_QUOTAS = 'custom';

/**
 * The published quotas. The type requires an entry for every plan. Where keys are read, the enum of the database column is
 * checked against {@link Plan}.
 */
export const PLAN_QUOTAS: Readonly<Record<Plan, Quotas | typeof CUSTOM_QUOTAS>> = Object.freeze({
  free: Object.freeze({ requestsPerMinute: 60, requestsPerDay: 1_000 }),
  pro: Object.freeze({ requestsPerMinute: 300, requestsPerDay: 10_000 }),
  business: Object.freeze({ requestsPerMinute: 1_000, requestsPerDay: 100_000 }),
  enterprise: CUSTOM_QUOTAS,
});

/** The id under which the usage of requests without a valid key is counted: the nil UUID (RFC 9562 section 5.9). */
export const ANONYMOUS_ID = '00000000-0000-0000-0000-000000000000';

/** The quotas of requests without a valid key, which are counted per address: those of the Free plan. */
export const ANONYMOUS_QUOTAS: Quotas = Object.freeze({ requestsPerMinute: 60, requestsPerDay: 1_000 });

/**
 * The quotas of a key.
 * @param custom the quotas of the key itself; used only if its plan has custom quotas
 * @throws {Error} when the plan is unknown or the custom quotas are missing; the request is then not admitted
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
