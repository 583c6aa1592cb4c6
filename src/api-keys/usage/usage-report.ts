import type pg from 'pg';
import { type Plan, quotasOf } from '../../plans/plans.js';
import { onlyId } from '../api-keys.admin.js';
import { type IdRange, idRangeOf } from '../key-id.js';
import { p95Of, planFit, type PlanFit } from './plan-fit.js';
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
export interface KeyUsage extends ReportedKey, UsageCounts, PlanFit {}

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

export interface KeyUsageReport extends Period, ReportedKey, PlanFit {
  /** Every day of the period since the first one with requests. */
  readonly days: readonly DayUsage[];
}

/** By PostgreSQL's clock, as the days are that the service writes. */
const PERIOD = `
  SELECT (day - $1::int + 1)::text AS "from", day::text AS "to"
  FROM coalesce($2, (now() AT TIME ZONE 'UTC')::date) AS day`;
const SUMS = ['admitted', 'rejected', 'banned', 'lists', 'cancels', 'list_bytes'] as const;

/** The percentile from an array of few days: the percentile of a group would sort all rows of the period. */
const USAGE_OF_KEYS = `
  SELECT usage.*, (SELECT percentile_disc(0.95) WITHIN GROUP (ORDER BY requests) FROM unnest(judged) AS requests) AS p95
  FROM (
    SELECT key_id AS id, ${SUMS.map((column) => `sum(${column}) AS ${column}`).join(', ')},
           array_agg(admitted) FILTER (WHERE day > $2::date - ${JUDGED_DAYS} AND admitted + rejected + banned > 0) AS judged
    FROM api_key_usage WHERE day BETWEEN $1 AND $2 GROUP BY key_id
  ) AS usage`;

const KEY_COLUMNS = `
  SELECT id, name, plan::text, requests_per_minute AS "requestsPerMinute", requests_per_day AS "requestsPerDay",
         CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= now() THEN 'expired' ELSE 'active' END AS state
  FROM api_keys`;

/** The days as a list, because the day is the first column of the index. */
const DAYS_OF_PERIOD = 'ARRAY(SELECT $1::date + age FROM generate_series(0, $2::date - $1::date) AS age)';
const USAGE_OF_DAYS = `
  SELECT day::text, ${SUMS.join(', ')} FROM api_key_usage WHERE day = ANY(${DAYS_OF_PERIOD}) AND key_id = $3 ORDER BY day`;
const IDS_WITH_USAGE = `
  SELECT DISTINCT key_id AS id FROM api_key_usage
  WHERE day = ANY(${DAYS_OF_PERIOD}) AND key_id BETWEEN $3 AND $4 LIMIT 3`;

type SumRow = Readonly<Record<(typeof SUMS)[number], string>>;

interface KeyRow {
  readonly id: string;
  readonly name: string;
  readonly plan: Plan;
  readonly requestsPerMinute: number | null;
  readonly requestsPerDay: number | null;
  readonly state: 'active' | 'expired' | 'revoked';
}

/**
 * The usage of all keys in a period.
 * @param until its last day, like 2026-11-22; by default today
 */
export async function reportUsage(db: pg.ClientBase, days: number, until?: string): Promise<UsageReport> {
  // Enough for the sums of tens of thousands of keys; for this connection only.
  await db.query("SET work_mem = '64MB'");
  const period = await periodOf(db, days, until);
  const usages = await db.query<SumRow & { id: string; p95: string | null }>(USAGE_OF_KEYS, [period.from, period.to]);
  const usageOf = new Map(usages.rows.map((row) => [row.id, row]));
  const toUsage = (key: ReportedKey): KeyUsage => {
    const row = usageOf.get(key.id);
    usageOf.delete(key.id);
    const p95 = row?.p95 ?? null;
    return { ...key, ...countsOf(row), ...planFit(p95 === null ? null : Number(p95), key.requestsPerDay) };
  };
  const anonymous = toUsage(ANONYMOUS);
  const { rows } = await db.query<KeyRow>(KEY_COLUMNS);
  const keys = rows.filter(({ id, state }) => state === 'active' || usageOf.has(id)).map((row) => toUsage(toKey(row)));
  // What is left belongs to keys that do not exist any more.
  keys.push(...[...usageOf.keys()].map((id) => toUsage(deletedKey(id))));
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
  const found = key === 'anonymous' ? [ANONYMOUS] : await findKeys(db, idRangeOf(key), period);
  const id = onlyId(
    key,
    found.map((each) => each.id),
  );
  const [reported] = found as [ReportedKey];
  const { rows } = await db.query<SumRow & { day: string }>(USAGE_OF_DAYS, [period.from, period.to, id]);
  const usages = rows.map((row) => ({ day: row.day, ...countsOf(row) }));
  const judgedFrom = dayAfter(period.to, 1 - JUDGED_DAYS);
  const judged = usages.filter(
    ({ day, admitted, rejected, banned }) => day >= judgedFrom && admitted + rejected + banned > 0,
  );
  return {
    ...period,
    ...reported,
    ...planFit(p95Of(judged.map(({ admitted }) => admitted)), reported.requestsPerDay),
    days: withEmptyDays(usages, period.to),
  };
}

async function findKeys(db: pg.ClientBase, { lowest, highest }: IdRange, { from, to }: Period): Promise<ReportedKey[]> {
  const { rows } = await db.query<KeyRow>(`${KEY_COLUMNS} WHERE id BETWEEN $1 AND $2 ORDER BY id LIMIT 3`, [
    lowest,
    highest,
  ]);
  if (rows.length > 0) {
    return rows.map(toKey);
  }
  const used = await db.query<{ id: string }>(IDS_WITH_USAGE, [from, to, lowest, highest]);
  return used.rows.map(({ id }) => (id === ANONYMOUS_ID ? ANONYMOUS : deletedKey(id)));
}

async function periodOf(db: pg.ClientBase, days: number, until?: string): Promise<Period> {
  const { rows } = await db.query<Period>(PERIOD, [days, until]);
  const [period] = rows as [Period];
  return period;
}

function toKey(row: KeyRow): ReportedKey {
  return { ...row, ...quotasOf(row.plan, row) };
}

const WITHOUT_PLAN = { name: null, plan: null, requestsPerMinute: null, requestsPerDay: null };
const ANONYMOUS: ReportedKey = { id: ANONYMOUS_ID, ...WITHOUT_PLAN, state: 'anonymous' };

function deletedKey(id: string): ReportedKey {
  return { id, ...WITHOUT_PLAN, state: 'deleted' };
}

function countsOf(row: SumRow | undefined): UsageCounts {
  return {
    admitted: Number(row?.admitted ?? 0),
    rejected: Number(row?.rejected ?? 0),
    banned: Number(row?.banned ?? 0),
    lists: Number(row?.lists ?? 0),
    cancels: Number(row?.cancels ?? 0),
    listBytes: Number(row?.list_bytes ?? 0),
  };
}

function withEmptyDays(usages: readonly DayUsage[], to: string): DayUsage[] {
  const days: DayUsage[] = [];
  for (const usage of usages) {
    fill(days, usage.day);
    days.push(usage);
  }
  if (days.length > 0) {
    fill(days, dayAfter(to, 1));
  }
  return days;
}

/** Appends the days without usage up to a day. */
function fill(days: DayUsage[], end: string): void {
  for (let last = days.at(-1); last !== undefined && dayAfter(last.day, 1) < end; last = days.at(-1)) {
    days.push({ day: dayAfter(last.day, 1), ...countsOf(undefined) });
  }
}

function dayAfter(day: string, days: number): string {
  return new Date(Date.parse(`${day}T00:00:00Z`) + days * 86_400_000).toISOString().slice(0, 10);
}
