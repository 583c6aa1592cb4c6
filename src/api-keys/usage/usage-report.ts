import type pg from 'pg';
import { type Plan, quotasOf } from '../../plans/plans.js';
import { onlyId } from '../api-keys.admin.js';
import { type IdRange, idRangeOf } from '../key-id.js';
import { type Demand, p95Of, planFit, type PlanFit } from './plan-fit.js';
import { ANONYMOUS_ID, type UsageCounts } from './usage-counts.js';

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

export interface KeyUsageReport extends Period, ReportedKey, Demand, PlanFit {
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

const STATE_WITHOUT_KEY = `CASE key_id WHEN '${ANONYMOUS_ID}' THEN 'anonymous' ELSE 'deleted' END`;
const KEY_COLUMNS = `
  SELECT id, name, plan::text, requests_per_minute AS "requestsPerMinute", requests_per_day AS "requestsPerDay",
         CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= now() THEN 'expired' ELSE 'active' END AS state
  FROM api_keys`;

const p95 = (values: string): string =>
  `(SELECT percentile_disc(0.95) WITHIN GROUP (ORDER BY requests)::float8 FROM unnest(${values}) AS requests)`;

/**
 * One row per key. A percentile is that of an array of few days: as an aggregate of the groups it would sort their rows and
 * keep PostgreSQL from adding up the counts in parallel.
 */
const USAGE_OF_KEYS = `
  SELECT coalesce(id, key_id) AS id, name, plan, "requestsPerMinute", "requestsPerDay",
         coalesce(state, ${STATE_WITHOUT_KEY}) AS state,
         ${countColumns((column) => `coalesce(${column}, 0)`)},
         ${p95('asked')} AS "p95PerDay", ${p95('denied')} AS "p95Denied"
  FROM (${KEY_COLUMNS}) AS key
  FULL JOIN (
    SELECT key_id, ${Object.values(COUNTS)
      .map((column) => `sum(${column}) AS ${column}`)
      .join(', ')}
    FROM api_key_usage WHERE day BETWEEN $1 AND $2 GROUP BY key_id
  ) AS used ON key_id = id
  LEFT JOIN (
    SELECT key_id AS judged_id, array_agg(admitted + rejected) AS asked, array_agg(rejected + banned) AS denied FROM api_key_usage
    WHERE day BETWEEN greatest($1, $2::date - ${JUDGED_DAYS - 1}) AND $2 AND admitted + rejected + banned > 0 GROUP BY key_id
  ) AS judged ON judged_id = key_id
  WHERE state = 'active' OR key_id IS NOT NULL`;

/** The days as a list, because the day is the first column of the index. */
const DAYS_OF_PERIOD = 'ARRAY(SELECT $1::date + age FROM generate_series(0, $2::date - $1::date) AS age)';
/** With zeros for the days without usage after the first one. */
const USAGE_OF_DAYS = `
  WITH used AS MATERIALIZED (SELECT * FROM api_key_usage WHERE day = ANY(${DAYS_OF_PERIOD}) AND key_id = $3)
  SELECT ($2::date - age)::text AS day, ${countColumns((column) => `coalesce(${column}, 0)`)}
  FROM generate_series($2::date - (SELECT min(day) FROM used), 0, -1) AS age LEFT JOIN used ON day = $2::date - age
  ORDER BY age DESC`;
const KEYS_IN_RANGE = `
  ${KEY_COLUMNS} WHERE id BETWEEN $3 AND $4
  UNION ALL
  SELECT DISTINCT key_id, NULL, NULL, NULL::integer, NULL::integer, ${STATE_WITHOUT_KEY} FROM api_key_usage
  WHERE day = ANY(${DAYS_OF_PERIOD}) AND key_id BETWEEN $3 AND $4 AND NOT EXISTS (SELECT FROM api_keys WHERE id = key_id)
  ORDER BY id LIMIT 3`;

/**
 * The usage of all keys in a period.
 * @param until its last day, like 2026-11-22; by default today
 */
export async function reportUsage(db: pg.ClientBase, days: number, until?: string): Promise<UsageReport> {
  // Enough for the sums of tens of thousands of keys; for this connection only.
  await db.query("SET work_mem = '64MB'");
  const period = await periodOf(db, days, until);
  const { rows } = await db.query<Omit<KeyUsage, keyof PlanFit>>(USAGE_OF_KEYS, [period.from, period.to]);
  const usages = rows.map((row): KeyUsage => {
    const key = withQuotas(row);
    return Object.assign(key, planFit(key, key));
  });
  const keys = usages.filter(({ state }) => state !== 'anonymous');
  keys.sort((a, b) => (b.share ?? -1) - (a.share ?? -1) || b.admitted - a.admitted || b.rejected - a.rejected);
  const anonymous = usages.find(({ state }) => state === 'anonymous');
  return {
    ...period,
    keys,
    anonymous: anonymous ?? { ...ANONYMOUS, ...NO_USAGE, ...NO_DEMAND, ...planFit(NO_DEMAND, ANONYMOUS) },
  };
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
  const found = key === 'anonymous' ? [ANONYMOUS] : await findKeys(db, idRangeOf(key), period);
  const id = onlyId(
    key,
    found.map((each) => each.id),
  );
  const [reported] = found as [ReportedKey];
  const { rows: usages } = await db.query<DayUsage>(USAGE_OF_DAYS, [period.from, period.to, id]);
  const judged = usages
    .slice(-JUDGED_DAYS)
    .filter(({ admitted, rejected, banned }) => admitted + rejected + banned > 0);
  const demand = {
    p95PerDay: p95Of(judged.map(({ admitted, rejected }) => admitted + rejected)),
    p95Denied: p95Of(judged.map(({ rejected, banned }) => rejected + banned)),
  };
  return {
    ...period,
    ...reported,
    ...demand,
    ...planFit(demand, reported),
    days: usages,
  };
}

async function findKeys(db: pg.ClientBase, { lowest, highest }: IdRange, { from, to }: Period): Promise<ReportedKey[]> {
  const { rows } = await db.query<ReportedKey>(KEYS_IN_RANGE, [from, to, lowest, highest]);
  return rows.map(withQuotas);
}

async function periodOf(db: pg.ClientBase, days: number, until?: string): Promise<Period> {
  const { rows } = await db.query<Period>(PERIOD, [days, until]);
  const [period] = rows as [Period];
  return period;
}

/** Sets the quotas of the plan. In place: copying ten thousand rows takes a tenth of the report. */
function withQuotas<Row extends ReportedKey>(row: Row): Row {
  return row.plan === null ? row : Object.assign(row, quotasOf(row.plan, row));
}

const NO_PLAN = { name: null, plan: null, requestsPerMinute: null, requestsPerDay: null };
const ANONYMOUS = { id: ANONYMOUS_ID, ...NO_PLAN, state: 'anonymous' } as const;
const NO_USAGE: UsageCounts = { admitted: 0, rejected: 0, banned: 0, lists: 0, cancels: 0, listBytes: 0 };

const NO_DEMAND: Demand = { p95PerDay: null, p95Denied: null };
