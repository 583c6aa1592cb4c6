import type { KeyUsage, KeyUsageReport, UsageReport } from '../api-keys/usage/usage-report.js';
import { count, shownId, table } from './table.js';

const TITLES = ['ID', 'PLAN', 'SHARE', 'P95/DAY', 'REJECTED', 'BANNED', 'FITS', 'NAME'];
const DAY_TITLES = ['DAY', 'ADMITTED', 'REJECTED', 'BANNED', 'LISTS', 'CANCELS', 'BYTES'];

const LEGEND = `
P95/DAY: on 95 % of the last 30 days with requests, no more were asked for;
SHARE: of the daily limit; FITS: the plan that would fit, if it is another one.`;

/** Formats the usage of all keys, one line per key. */
export function usageText({ from, to, keys, anonymous }: UsageReport): string {
  const rows = [...keys, anonymous].map((key) => [
    key === anonymous ? key.state : shownId(key.id),
    key.plan ?? '-',
    percent(key.share),
    key.p95PerDay === null ? '-' : count(key.p95PerDay),
    count(key.rejected),
    count(key.banned),
    markOf(key) || otherPlanOf(key),
    nameOf(key),
  ]);
  return [`Usage from ${from} to ${to} (UTC)`, '', table(TITLES, rows), LEGEND].join('\n');
}

/** Formats the usage of one key, one line per day. */
export function keyUsageText(report: KeyUsageReport): string {
  const { from, to, id, plan, requestsPerMinute, requestsPerDay, days } = report;
  const title = [
    [nameOf(report), markOf(report)].join(' ').trimEnd(),
    ...(report.state === 'anonymous' ? [] : [id]),
    ...(plan === null || requestsPerMinute === null || requestsPerDay === null
      ? []
      : [`${plan}: ${count(requestsPerMinute)} requests per minute, ${count(requestsPerDay)} per day`]),
    `Usage from ${from} to ${to} (UTC)`,
    '',
  ];
  if (days.length === 0) {
    return [...title, 'No requests in this period.'].join('\n');
  }
  const rows = days.map(({ day, admitted, rejected, banned, lists, cancels, listBytes }) => [
    day,
    ...[admitted, rejected, banned, lists, cancels, listBytes].map(count),
  ]);
  return [...title, table(DAY_TITLES, rows), '', ...verdictOn(report), ...reasonsOf(report)].join('\n');
}

function verdictOn({ p95PerDay, share, requestsPerDay, fits, plan, orHigher, state }: KeyUsage): string[] {
  if (p95PerDay === null) {
    return [];
  }
  const ofLimit = requestsPerDay === null ? '' : ` of ${count(requestsPerDay)} (${percent(share)})`;
  const demand = `p95 of daily requests, admitted and rejected: ${count(p95PerDay)}${ofLimit}`;
  if (fits === null || state !== 'active') {
    return [demand];
  }
  if (orHigher) {
    return [
      demand,
      fits === plan ? 'The key needs a higher limit.' : `The key needs the plan ${fits} or a higher one.`,
    ];
  }
  return [demand, fits === plan ? 'The plan fits.' : `The plan ${fits} would fit.`];
}

/** Why requests were rejected. A key below its daily limit can only have been over its limit per minute. */
function reasonsOf({ days, rejected, banned, requestsPerDay, requestsPerMinute, state }: KeyUsageReport): string[] {
  const denied = days.filter((day) => day.rejected + day.banned > 0);
  if (denied.length === 0) {
    return ['No request was rejected.'];
  }
  const lines = [`Rejected: ${count(rejected)} requests over a limit, ${count(banned)} during a ban`];
  if (requestsPerDay === null || requestsPerMinute === null) {
    return state === 'anonymous' ? [...lines, 'Each address has limits of its own.'] : lines;
  }
  const below = denied.filter(({ admitted }) => admitted < requestsPerDay);
  if (below.length < denied.length) {
    lines.push(
      `- days on which the limit of ${count(requestsPerDay)} per day was reached: ${denied.length - below.length}`,
    );
  }
  if (below.length > 0) {
    const most = count(Math.max(...below.map((day) => day.rejected)));
    const limit = `the limit of ${count(requestsPerMinute)} per minute was exceeded`;
    lines.push(`- days on which only ${limit}, by up to ${most} a day: ${below.length}`);
  }
  return lines;
}

function nameOf({ name, state }: { name: string | null; state: string }): string {
  return name ?? `(${state})`;
}

/** A key that is not valid any more needs no plan: the mark is in the place of the plan. */
function markOf({ state }: { state: string }): string {
  return state === 'revoked' || state === 'expired' ? `(${state})` : '';
}

/** Empty when the plan of the key fits; `+` when even this plan may be too small. */
function otherPlanOf({ plan, fits, orHigher }: KeyUsage): string {
  return fits === null || (fits === plan && !orHigher) ? '' : `${fits}${orHigher ? '+' : ''}`;
}

function percent(share: number | null): string {
  return share === null ? '-' : `${Math.floor(share * 100)} %`;
}
