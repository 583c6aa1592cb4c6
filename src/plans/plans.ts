/** The maximum numbers of requests of a key or address. Integers, at least 1. */
export interface Quotas {
  readonly requestsPerMinute: number;
  readonly requestsPerDay: number;
}

export const PLANS = ['free', 'pro', 'business', 'enterprise'] as const;

export type Plan = (typeof PLANS)[number];

/** The published quotas; those of the Enterprise plan are set per key. */
export const PLAN_QUOTAS: Readonly<Record<Exclude<Plan, 'enterprise'>, Quotas>> = Object.freeze({
  free: Object.freeze({ requestsPerMinute: 60, requestsPerDay: 1_000 }),
  pro: Object.freeze({ requestsPerMinute: 300, requestsPerDay: 10_000 }),
  business: Object.freeze({ requestsPerMinute: 1_000, requestsPerDay: 100_000 }),
});

/** What a request is counted against: a key, or the address of a request without a valid one. */
export interface Caller {
  /** The id of the key, or the network of the address. */
  readonly id: string;
  readonly plan: Plan | 'anonymous';
  readonly quotas: Quotas;
}

/** The id under which the usage of requests without a valid key is counted: the nil UUID (RFC 9562 section 5.9). */
export const ANONYMOUS_ID = '00000000-0000-0000-0000-000000000000';

/** The quotas of requests without a valid key, which are counted per address. */
export const ANONYMOUS_QUOTAS = PLAN_QUOTAS.free;

/**
 * The quotas of a key.
 * @param custom the quotas of the key itself; used only for the Enterprise plan
 * @throws {Error} when the plan is unknown or the custom quotas are missing; the request is then not admitted
 */
export function quotasOf(
  plan: Plan,
  custom: { requestsPerMinute: number | null; requestsPerDay: number | null },
): Quotas {
  if (plan !== 'enterprise') {
    const quotas = PLAN_QUOTAS[plan] as Quotas | undefined;
    if (quotas === undefined) {
      throw new Error(`No quotas are known for the plan "${plan}".`);
    }
    return quotas;
  }
  const { requestsPerMinute, requestsPerDay } = custom;
  if (requestsPerMinute === null || requestsPerDay === null) {
    throw new Error(`A key of the plan "${plan}" has no quotas of its own.`);
  }
  return { requestsPerMinute, requestsPerDay };
}
