import type pg from 'pg';
import { onlyRow } from '../../database/only-row.js';
import { CUSTOM_QUOTAS, type Plan, PLAN_QUOTAS, PLANS } from '../../plans/plans.js';
import { onlyKey } from '../api-keys.admin.js';
import { type IdRange, idRangeOf } from '../key-id.js';
import { ANONYMOUS_ID, type UsageCounts } from './usage-counts.js';

/** A key, and what it did in a period as PostgreSQL adds it up. Name, plan and limits are null where there is no key. */
interface UsageRow extends UsageCounts {
  readonly id: string;
  readonly name: string | null;
  readonly plan: Plan | null;
  readonly state: 'active' | 'expired' | 'revoked' | 'deleted' | 'anonymous';
  readonly requestsPerMinute: number | null;
  readonly requestsPerDay: number | null;
  /** The most requests that were asked for on one day, admitted and rejected. Those during a ban are repetitions. */
  readonly busiestDay: number;
  /** The most requests that were rejected on one day: of the days on which the limit per day was reached, and of the others. */
  readonly overDay: number;
  readonly overMinute: number;
}

export interface KeyUsage extends UsageRow {
  /** `busiestDay` of the limit per day. */
  readonly share: number | null;
  /** The smallest plan that may admit what was asked for. Null for a key that is not valid or was not used. */
  readonly needs: Plan | null;
}

export interface DayUsage extends UsageCounts {
  /** Like 2026-11-22. */
  readonly day: string;
}

/** A period of whole UTC days, like 2026-11-22, both included. */
export interface Period {
  readonly from: string;
  readonly to: string;
}

export interface UsageReport extends Period {
  /** Keys with requests in the period and keys that are valid now, the highest share of the limit first. */
  readonly keys: readonly KeyUsage[];
  /** Requests without a valid key, from all addresses. */
  readonly anonymous: KeyUsage;
}

export interface KeyUsageReport extends Period, KeyUsage {
  /** The days with requests. */
  readonly days: readonly DayUsage[];
}

/** As floating point numbers, which are exact up to 2^53. */
const SUMS = `
  coalesce(sum(admitted), 0)::float8 AS admitted, coalesce(sum(rejected), 0)::float8 AS rejected,
  coalesce(sum(banned), 0)::float8 AS banned, coalesce(sum(lists), 0)::float8 AS lists,
  coalesce(sum(cancels), 0)::float8 AS cancels, coalesce(sum(list_bytes), 0)::float8 AS "listBytes"`;

const PUBLISHED_QUOTAS = Object.entries(PLAN_QUOTAS)
  .flatMap(([plan, quotas]) =>
    quotas === CUSTOM_QUOTAS ? [] : [`('${plan}', ${quotas.requestsPerMinute}, ${quotas.requestsPerDay})`],
  )
  .join(', ');

/** The requests without a valid key count as those of one more key. */
const KEYS = `
  SELECT id, name, plan::text, coalesce(requests_per_minute, per_minute) AS per_minute, coalesce(requests_per_day, per_day) AS per_day,
         CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= now() THEN 'expired' ELSE 'active' END AS state
  FROM api_keys LEFT JOIN (VALUES ${PUBLISHED_QUOTAS}) AS published (plan_name, per_minute, per_day) ON plan_name = plan::text
  UNION ALL SELECT '${ANONYMOUS_ID}', NULL, NULL, NULL, NULL, 'anonymous'`;

const USAGE_OF_KEYS = `
  SELECT id, name, plan, coalesce(state, 'deleted') AS state, per_minute AS "requestsPerMinute", per_day AS "requestsPerDay", ${SUMS},
         coalesce(max(admitted + rejected), 0)::float8 AS "busiestDay",
         coalesce(max(rejected) FILTER (WHERE admitted >= per_day), 0)::float8 AS "overDay",
         coalesce(max(rejected) FILTER (WHERE admitted < per_day), 0)::float8 AS "overMinute"
  FROM (SELECT * FROM (${KEYS}) AS key WHERE id BETWEEN $3 AND $4) AS key
  FULL JOIN (
    SELECT *, key_id AS id FROM api_key_usage WHERE day BETWEEN $1 AND $2 AND key_id BETWEEN $3 AND $4
  ) AS used USING (id)
  GROUP BY id, name, plan, state, per_minute, per_day`;

const USAGE_OF_DAYS = `
  SELECT day::text AS day, ${SUMS} FROM api_key_usage WHERE day BETWEEN $1 AND $2 AND key_id = $3 GROUP BY day ORDER BY day`;

/** The usage of all keys in a period. */
export async function reportUsage(db: pg.ClientBase, period: Period): Promise<UsageReport> {
  const usages = await usagesOf(db, period, idRangeOf(''));
  const anonymous = onlyRow(usages.filter(({ state }) => state === 'anonymous'));
  const isShown = ({ state, admitted, rejected, banned }: KeyUsage): boolean =>
    state === 'active' || admitted + rejected + banned > 0;
  const keys = usages.filter((usage) => usage !== anonymous && isShown(usage));
  keys.sort((a, b) => (b.share ?? -1) - (a.share ?? -1) || b.busiestDay - a.busiestDay);
  return { ...period, keys, anonymous };
}

/**
 * The usage of one key, day by day.
 * @param key its id, the first characters of its id, or `anonymous`
 * @throws {KeyAdministrationError} when there is no such key, or more than one
 */
export async function reportKeyUsage(db: pg.ClientBase, key: string, period: Period): Promise<KeyUsageReport> {
  const usages = await usagesOf(db, period, idRangeOf(key === 'anonymous' ? ANONYMOUS_ID : key));
  const usage = onlyKey(key, usages);
  const { rows } = await db.query<DayUsage>(USAGE_OF_DAYS, [period.from, period.to, usage.id]);
  return { ...period, ...usage, days: rows };
}

async function usagesOf(db: pg.ClientBase, { from, to }: Period, ids: IdRange): Promise<KeyUsage[]> {
  const { rows } = await db.query<UsageRow>(USAGE_OF_KEYS, [from, to, ids.lowest, ids.highest]);
  return rows.map((row) => ({
    ...row,
    share: row.requestsPerDay === null ? null : row.busiestDay / row.requestsPerDay,
    needs: neededPlan(row),
  }));
}

/**
 * The requests of a minute are not recorded: a key that was over its limit per minute asked for more than the limit, another one for
 * no more than the limit and no more than on its busiest day.
 */
function neededPlan({ state, requestsPerMinute, busiestDay, overMinute }: UsageRow): Plan | null {
  if (state !== 'active' || requestsPerMinute === null || busiestDay === 0) {
    return null;
  }
  const perMinute = overMinute > 0 ? requestsPerMinute + 1 : Math.min(requestsPerMinute, busiestDay);
  const smallest = PLANS.find((plan) => {
    const quotas = PLAN_QUOTAS[plan];
    return quotas === CUSTOM_QUOTAS || (perMinute <= quotas.requestsPerMinute && busiestDay <= quotas.requestsPerDay);
  });
  return smallest ?? null;
}
