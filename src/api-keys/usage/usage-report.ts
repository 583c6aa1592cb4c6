import type pg from 'pg';
import { type Plan, quotasOf } from '../../plans/plans.js';
import { onlyRow } from '../../database/only-row.js';
import { onlyId } from '../api-keys.admin.js';
import { type IdRange, idRangeOf } from '../key-id.js';
import { type Demand, planFit, type PlanFit } from './plan-fit.js';
import { ANONYMOUS_ID, type UsageCounts } from './usage-recorder.js';

/** The days at the end of a period by which a plan is judged: what a key did a year ago says little about its plan. */
const JUDGED_DAYS = 30;

/** A key as the reports name it. */
export interface ReportedKey {
  readonly id: string;
  /** Null for a deleted key and for anonymous requests. */
  readonly name: string | null;
  readonly plan: Plan | null;
  readonly state: 'active' | 'expired' | 'revoked' | 'deleted' | 'anonymous';
  readonly requestsPerMinute: number | null;
  readonly requestsPerDay: number | null;
}

/** The sums of a key over a period. */
export interface KeyUsage extends ReportedKey, UsageCounts, Demand, PlanFit {}

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
  /** Every day of the period since the first one with requests. */
  readonly days: readonly DayUsage[];
}

/** By PostgreSQL's clock, as the days are that the service writes. */
const PERIOD = `
  SELECT (day - $1::int + 1)::text AS "from", day::text AS "to"
  FROM coalesce($2, (now() AT TIME ZONE 'UTC')::date) AS day`;
/** The columns of the counts, under the names of {@link UsageCounts}; as floating point numbers, which are exact up to 2^53. */
const COUNTS = {
  admitted: 'admitted',
  rejected: 'rejected',
  banned: 'banned',
  lists: 'lists',
  cancels: 'cancels',
  listBytes: 'list_bytes',
} satisfies Record<keyof UsageCounts, string>;

function countColumns(value: (column: string) => string): string {
  return Object.entries(COUNTS)
    .map(([name, column]) => `${value(column)}::float8 AS "${name}"`)
    .join(', ');
}

/** The anonymous requests count as those of one more key. */
const KEYS = `
  SELECT id, name, plan::text, requests_per_minute AS "requestsPerMinute", requests_per_day AS "requestsPerDay",
         CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= now() THEN 'expired' ELSE 'active' END AS state
  FROM api_keys
  UNION ALL SELECT '${ANONYMOUS_ID}', NULL, NULL, NULL, NULL, 'anonymous'`;

const p95 = (values: string): string =>
  `(SELECT percentile_disc(0.95) WITHIN GROUP (ORDER BY requests)::float8 FROM unnest(${values}) AS requests)`;

/**
 * One row per key. A percentile is that of an array of few days: as an aggregate of the groups it would sort their rows and
 * keep PostgreSQL from adding up the counts in parallel.
 */
const USAGE_OF_KEYS = `
  SELECT coalesce(id, key_id) AS id, name, plan, "requestsPerMinute", "requestsPerDay", coalesce(state, 'deleted') AS state,
         ${countColumns((column) => `coalesce(${column}, 0)`)},
         ${p95('asked')} AS "p95PerDay", ${p95('denied')} AS "p95Denied"
  FROM (SELECT * FROM (${KEYS}) AS key WHERE id BETWEEN $3 AND $4) AS key
  FULL JOIN (
    SELECT key_id, ${Object.values(COUNTS)
      .map((column) => `sum(${column}) AS ${column}`)
      .join(', ')}
    FROM api_key_usage WHERE day BETWEEN $1 AND $2 AND key_id BETWEEN $3 AND $4 GROUP BY key_id
  ) AS used ON key_id = id
  LEFT JOIN (
    SELECT key_id AS judged_id, array_agg(admitted + rejected) AS asked, array_agg(rejected + banned) AS denied FROM api_key_usage
    WHERE day BETWEEN greatest($1, $2::date - ${JUDGED_DAYS - 1}) AND $2 AND key_id BETWEEN $3 AND $4
      AND admitted + rejected + banned > 0 GROUP BY key_id
  ) AS judged ON judged_id = key_id
  WHERE key_id IS NOT NULL OR state IN ('active', 'anonymous') OR $5`;

/** With zeros for the days without usage after the first one. */
const USAGE_OF_DAYS = `
  WITH used AS MATERIALIZED (SELECT * FROM api_key_usage WHERE day BETWEEN $1 AND $2 AND key_id = $3)
  SELECT ($2::date - age)::text AS day, ${countColumns((column) => `coalesce(${column}, 0)`)}
  FROM generate_series($2::date - (SELECT min(day) FROM used), 0, -1) AS age LEFT JOIN used ON day = $2::date - age
  ORDER BY age DESC`;

/**
 * The usage of all keys in a period.
 * @param until its last day, like 2026-11-22; by default today
 */
export async function reportUsage(db: pg.ClientBase, days: number, until?: string): Promise<UsageReport> {
  const period = await periodOf(db, days, until);
  const usages = await usagesOf(db, period, idRangeOf(''), false);
  const anonymous = onlyRow(usages.filter(({ state }) => state === 'anonymous'));
  const keys = usages.filter((usage) => usage !== anonymous);
  keys.sort((a, b) => (b.share ?? -1) - (a.share ?? -1) || b.admitted - a.admitted || b.rejected - a.rejected);
  return { ...period, keys, anonymous };
}

/**
 * The usage of one key, day by day.
 * @param key its id, the first characters of its id, or `anonymous`
 * @param until as for {@link reportUsage}
 * @throws {KeyAdministrationError} when there is no such key, or more than one
 */
export async function reportKeyUsage(
  db: pg.ClientBase,
  key: string,
  days: number,
  until?: string,
): Promise<KeyUsageReport> {
  const period = await periodOf(db, days, until);
  const found = await usagesOf(db, period, idRangeOf(key === 'anonymous' ? ANONYMOUS_ID : key), true);
  const id = onlyId(
    key,
    found.map((each) => each.id),
  );
  const { rows } = await db.query<DayUsage>(USAGE_OF_DAYS, [period.from, period.to, id]);
  return { ...period, ...onlyRow(found), days: rows };
}

/** @param withIdle also keys that are not valid any more and have no usage in the period */
async function usagesOf(db: pg.ClientBase, period: Period, ids: IdRange, withIdle: boolean): Promise<KeyUsage[]> {
  // Enough for the sums of tens of thousands of keys; for this connection only.
  await db.query("SET work_mem = '64MB'");
  const values = [period.from, period.to, ids.lowest, ids.highest, withIdle];
  const { rows } = await db.query<Omit<KeyUsage, keyof PlanFit>>(USAGE_OF_KEYS, values);
  // In place: copying ten thousand rows takes a tenth of the report.
  return rows.map((row) => {
    const key = row.plan === null ? row : Object.assign(row, quotasOf(row.plan, row));
    return Object.assign(key, planFit(key, key));
  });
}

async function periodOf(db: pg.ClientBase, days: number, until?: string): Promise<Period> {
  return onlyRow((await db.query<Period>(PERIOD, [days, until])).rows);
}
