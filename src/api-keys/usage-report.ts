import { Prisma, type PrismaClient } from '../database/generated/client.js';
import { ANONYMOUS_ID, type Plan, PLAN_QUOTAS } from '../plans/plans.js';
import type { UsageCounts } from '../usage/usage-counts.js';
import type { KeyState } from './key.js';

/** A key, and what it did in a period. Name, plan and limits are null where there is no key. */
export interface KeyUsage extends UsageCounts {
  readonly id: string;
  readonly name: string | null;
  readonly plan: Plan | null;
  readonly state: KeyState | 'deleted' | 'anonymous';
  readonly requestsPerMinute: number | null;
  readonly requestsPerDay: number | null;
  /** The most requests that were asked for on one day, admitted and rejected. Those during a ban are repetitions. */
  readonly busiestDay: number;
  /** `busiestDay` of the limit per day. */
  readonly share: number | null;
  /** The most requests that were rejected on one day: of the days on which the limit per day was reached, and of the others. */
  readonly overDay: number;
  readonly overMinute: number;
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

/** As floating point numbers, which are exact up to 2^53. */
const SUMS = Prisma.sql`
  sum(admitted)::float8 AS admitted, sum(rejected)::float8 AS rejected, sum(banned)::float8 AS banned,
  sum(lists)::float8 AS lists, sum(cancels)::float8 AS cancels, sum(list_bytes)::float8 AS "listBytes"`;

const PUBLISHED_QUOTAS = Prisma.raw(
  Object.entries(PLAN_QUOTAS)
    .map(([plan, { requestsPerMinute, requestsPerDay }]) => `('${plan}', ${requestsPerMinute}, ${requestsPerDay})`)
    .join(', '),
);

/** As `stateOf`, for which no date after the year 9999 is in the future. */
const STATE = Prisma.sql`
  CASE WHEN revoked_at IS NOT NULL THEN 'revoked'
       WHEN expires_at <= now() OR expires_at >= '10000-01-01' THEN 'expired' ELSE 'active' END`;

/** The requests without a valid key count as those of one more key. */
const KEYS = Prisma.sql`
  SELECT id, name, plan::text, coalesce(requests_per_minute, per_minute) AS per_minute, coalesce(requests_per_day, per_day) AS per_day,
         ${STATE} AS state
  FROM api_keys LEFT JOIN (VALUES ${PUBLISHED_QUOTAS}) AS published (plan_name, per_minute, per_day) ON plan_name = plan::text
  UNION ALL SELECT ${ANONYMOUS_ID}::uuid, NULL, NULL, NULL, NULL, 'anonymous'`;

const orZero = (...figures: string[]): Prisma.Sql =>
  Prisma.raw(figures.map((figure) => `coalesce("${figure}", 0) AS "${figure}"`).join(', '));

/**
 * What keys did in a period.
 * @param prefix the first characters of the ids, in lower case; without any, keys that are not valid any more are omitted unless they were used
 */
export async function usageOfKeys(prisma: PrismaClient, { from, to }: Period, prefix = ''): Promise<KeyUsage[]> {
  // The highest share of the limit first. The days are added up before the join: 4,000,000 rows of it would be sorted on disk.
  const rows = await prisma.$queryRaw<Omit<KeyUsage, 'needs'>[]>`
    WITH key AS (${KEYS}), used AS (
      SELECT key_id AS id, ${SUMS}, max(admitted + rejected)::float8 AS "busiestDay",
             max(rejected) FILTER (WHERE admitted >= per_day)::float8 AS "overDay",
             max(rejected) FILTER (WHERE admitted < per_day)::float8 AS "overMinute"
      FROM api_key_usage LEFT JOIN key ON id = key_id
      WHERE day BETWEEN ${from}::date AND ${to}::date AND key_id::text LIKE ${prefix} || '%' GROUP BY key_id
    )
    SELECT id, name, plan, coalesce(state, 'deleted') AS state, per_minute AS "requestsPerMinute", per_day AS "requestsPerDay",
           ${orZero('admitted', 'rejected', 'banned', 'lists', 'cancels', 'listBytes', 'busiestDay')}, coalesce("busiestDay", 0) / per_day AS share,
           ${orZero('overDay', 'overMinute')}
    FROM key FULL JOIN used USING (id)
    WHERE id::text LIKE ${prefix} || '%' AND (${prefix} <> '' OR state IN ('active', 'anonymous') OR used.id IS NOT NULL)
    ORDER BY share DESC NULLS LAST, "busiestDay" DESC, id`;
  return rows.map((row) => ({ ...row, needs: neededPlan(row) }));
}

/** What a key did on each day with requests. */
export async function usageOfDays(prisma: PrismaClient, { from, to }: Period, keyId: string): Promise<DayUsage[]> {
  const days = await prisma.apiKeyUsage.findMany({
    where: { keyId, day: { gte: new Date(from), lte: new Date(to) } },
    orderBy: { day: 'asc' },
  });
  return days.map(({ day, admitted, rejected, banned, lists, cancels, listBytes }) => ({
    day: day.toISOString().slice(0, 10),
    admitted: Number(admitted),
    rejected: Number(rejected),
    banned: Number(banned),
    lists: Number(lists),
    cancels: Number(cancels),
    listBytes: Number(listBytes),
  }));
}

/**
 * The requests of a minute are not recorded: a key that was over its limit per minute asked for more than the limit, another one for
 * no more than the limit and no more than on its busiest day.
 */
function neededPlan({ state, requestsPerMinute, busiestDay, overMinute }: Omit<KeyUsage, 'needs'>): Plan | null {
  if (state !== 'active' || requestsPerMinute === null || busiestDay === 0) {
    return null;
  }
  const perMinute = overMinute > 0 ? requestsPerMinute + 1 : Math.min(requestsPerMinute, busiestDay);
  const [smallest = 'enterprise'] =
    Object.entries(PLAN_QUOTAS).find(
      ([, published]) => perMinute <= published.requestsPerMinute && busiestDay <= published.requestsPerDay,
    ) ?? [];
  return smallest as Plan;
}
