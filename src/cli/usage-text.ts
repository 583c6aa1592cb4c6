import type { DayUsage, KeyUsage, KeyUsageReport, UsageReport } from '../api-keys/usage/usage-report.js';
import { barOf } from './bar.js';
import { type Column, idColumn, paint, type Style, textTable } from './text-table.js';
import { count, shortBytes, shortCount } from './wording.js';

const BAR_WIDTH = 12;
/** Shares of the daily limit from which a key is shown in yellow and in red. */
const HIGH_SHARE = 0.75;
const VERY_HIGH_SHARE = 0.9;

const LEGEND = [
  'P95/DAY: on 95 % of the last 30 days with requests, no more were asked for;',
  'SHARE: of the daily limit; FITS: the plan that would fit, if it is another one.',
];

/** Formats the usage of all keys, one line per key. */
export function usageText({ from, to, keys, anonymous }: UsageReport): string {
  const id = idColumn(keys);
  const columns: Column<KeyUsage>[] = [
    { title: 'NAME', text: nameOf, style: () => 'bold', shortened: true },
    { title: 'PLAN', text: ({ plan }) => plan ?? '-' },
    { title: 'SHARE', text: ({ share }) => percent(share), style: ({ share }) => styleOf(share), align: 'right' },
    { title: 'P95/DAY', text: ({ p95PerDay }) => (p95PerDay === null ? '-' : shortCount(p95PerDay)), align: 'right' },
    { title: 'REJECTED', text: ({ rejected }) => shortCount(rejected), align: 'right' },
    { title: 'BANNED', text: ({ banned }) => shortCount(banned), align: 'right' },
    { title: 'FITS', text: (key) => markOf(key) || otherPlanOf(key), style: (key) => (markOf(key) ? 'red' : 'yellow') },
    { ...id, text: (key) => (key === anonymous ? key.state : id.text(key)) },
  ];
  return [`Usage from ${from} to ${to} (UTC)`, '', textTable(columns, [...keys, anonymous]), '', ...dim(LEGEND)].join(
    '\n',
  );
}

/** Formats the usage of one key, one line per day. */
export function keyUsageText(report: KeyUsageReport): string {
  const { from, to, id, plan, requestsPerMinute, requestsPerDay, days } = report;
  const title = [
    [paint('bold', nameOf(report)), markOf(report)].join(' ').trimEnd(),
    ...(report.state === 'anonymous' ? [] : [id]),
    ...(plan === null || requestsPerMinute === null || requestsPerDay === null
      ? []
      : [`${plan}: ${count(requestsPerMinute)} requests per minute, ${count(requestsPerDay)} per day`]),
    `Usage from ${from} to ${to} (UTC)`,
  ];
  if (days.length === 0) {
    return [...title, '', 'No requests in this period.'].join('\n');
  }
  const full = requestsPerDay ?? Math.max(1, ...days.map(({ admitted }) => admitted));
  const columns: Column<DayUsage>[] = [
    { title: 'DAY', text: ({ day }) => day },
    {
      title: requestsPerDay === null ? '' : 'OF LIMIT',
      text: ({ admitted }) => barOf(Math.min(1, admitted / full), BAR_WIDTH),
      style: ({ admitted }) => (requestsPerDay === null ? undefined : styleOf(admitted / requestsPerDay)),
    },
    { title: 'ADMITTED', text: ({ admitted }) => count(admitted), align: 'right' },
    { title: 'REJECTED', text: ({ rejected }) => shortCount(rejected), align: 'right' },
    { title: 'BANNED', text: ({ banned }) => shortCount(banned), align: 'right' },
    { title: 'LISTS', text: ({ lists }) => shortCount(lists), align: 'right' },
    { title: 'CANCELS', text: ({ cancels }) => shortCount(cancels), align: 'right' },
    { title: 'SENT', text: ({ listBytes }) => shortBytes(listBytes), align: 'right' },
  ];
  return [...title, '', textTable(columns, days), '', ...conclusions(report)].join('\n');
}

function conclusions(report: KeyUsageReport): string[] {
  const { p95PerDay, share, requestsPerDay } = report;
  if (p95PerDay === null) {
    return reasons(report);
  }
  const ofLimit = requestsPerDay === null ? '' : ` of ${count(requestsPerDay)} (${percent(share)})`;
  return [
    `p95 of daily requests, admitted and rejected: ${count(p95PerDay)}${ofLimit}`,
    ...verdictOn(report),
    ...reasons(report),
  ];
}

function verdictOn({ fits, plan, orHigher, state }: KeyUsageReport): string[] {
  if (fits === null || state !== 'active') {
    return [];
  }
  if (orHigher) {
    return [fits === plan ? 'The key needs a higher limit.' : `The key needs the plan ${fits} or a higher one.`];
  }
  return [fits === plan ? 'The plan fits.' : `The plan ${fits} would fit.`];
}

/** Why requests were rejected. A key below its daily limit can only have been over its limit per minute. */
function reasons({ days, requestsPerDay, requestsPerMinute, state }: KeyUsageReport): string[] {
  const denied = days.filter(({ rejected, banned }) => rejected + banned > 0);
  if (denied.length === 0) {
    return ['No request was rejected.'];
  }
  const total = (field: 'rejected' | 'banned'): string => count(days.reduce((sum, day) => sum + day[field], 0));
  const lines = [`Rejected: ${total('rejected')} requests over a limit, ${total('banned')} during a ban`];
  if (requestsPerDay === null || requestsPerMinute === null) {
    return state === 'anonymous' ? [...lines, 'Each address has limits of its own.'] : lines;
  }
  const daily = denied.filter(({ admitted }) => admitted >= requestsPerDay).length;
  if (daily > 0) {
    lines.push(`- on ${daysText(daily)} the limit of ${count(requestsPerDay)} per day was reached`);
  }
  if (denied.length > daily) {
    const most = Math.max(...denied.map(({ admitted, rejected }) => (admitted >= requestsPerDay ? 0 : rejected)));
    const excess = `the limit of ${count(requestsPerMinute)} per minute was exceeded, by up to ${count(most)} a day`;
    lines.push(`- on ${daysText(denied.length - daily)} only ${excess}`);
  }
  return lines;
}

function daysText(days: number): string {
  return days === 1 ? '1 day' : `${count(days)} days`;
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

function styleOf(share: number | null): Style | undefined {
  if (share === null || share < HIGH_SHARE) {
    return undefined;
  }
  return share < VERY_HIGH_SHARE ? 'yellow' : 'red';
}

function dim(lines: readonly string[]): string[] {
  return lines.map((line) => paint('dim', line));
}
