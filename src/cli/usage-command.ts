import { Argument, type Command } from 'commander';
import {
  type DayUsage,
  type KeyUsage,
  type KeyUsageReport,
  type Period,
  reportKeyUsage,
  reportUsage,
  type UsageReport,
} from '../api-keys/usage/usage-report.js';
import { integer, keyId, pastDay } from './arguments.js';
import { withDatabase } from './command-database.js';
import { count, print, shownId, table } from './output.js';

const DAY_MS = 86_400_000;
const DAYS_DEFAULT = 30;
const DAYS_MAX = 3_650;

const TITLES = ['ID', 'PLAN', 'BUSIEST DAY', 'SHARE', 'REJECTED', 'BANNED', 'NEEDS', 'NAME'];
const DAY_TITLES = ['DAY', 'ADMITTED', 'REJECTED', 'BANNED', 'LISTS', 'CANCELS', 'BYTES'];

interface UsageOptions {
  readonly days: number;
  readonly until?: string;
  readonly json?: true;
}

export function addUsageCommand(keys: Command): void {
  keys
    .command('usage')
    .description('show what all keys did, or what one key did on each day')
    .addArgument(
      new Argument('[id]', 'id of a key, its first 8 characters, or "anonymous"').argParser(keyIdOrAnonymous),
    )
    .option('--days <n>', 'number of days, the last one included', integer(1, DAYS_MAX), DAYS_DEFAULT)
    .option('--until <day>', 'last day in UTC, like 2026-10-31 (default: today)', pastDay)
    .option('--json', 'print one object with all figures')
    .action(async (key: string | undefined, { json, ...options }: UsageOptions) => {
      const period = periodOf(options);
      if (key === undefined) {
        const report = await withDatabase((db) => reportUsage(db, period));
        await print(json, report, usageText(report));
      } else {
        const report = await withDatabase((db) => reportKeyUsage(db, key, period));
        await print(json, report, keyUsageText(report));
      }
    });
}

function keyIdOrAnonymous(text: string): string {
  return text === 'anonymous' ? text : keyId(text);
}

function periodOf({ days, until }: UsageOptions): Period {
  const to = until ?? new Date().toISOString().slice(0, 10);
  return { from: new Date(Date.parse(to) - (days - 1) * DAY_MS).toISOString().slice(0, 10), to };
}

/** Formats the usage of all keys, one line per key. */
function usageText({ from, to, keys, anonymous }: UsageReport): string {
  const rows = [...keys, anonymous].map((key) => [
    key === anonymous ? key.state : shownId(key.id),
    key.plan ?? '-',
    count(key.busiestDay),
    percent(key.share),
    count(key.rejected),
    count(key.banned),
    otherPlanOf(key),
    labelOf(key),
  ]);
  return [`Usage from ${from} to ${to} (UTC)`, '', table(TITLES, rows)].join('\n');
}

/** Empty when the plan of the key fits; `+` when that plan may be too small, too. */
function otherPlanOf({ plan, needs, rejected }: KeyUsage): string {
  if (needs === null || (needs === plan && rejected === 0)) {
    return '';
  }
  return rejected === 0 ? needs : `${needs}+`;
}

/** Formats the usage of one key, one line per day. */
function keyUsageText(report: KeyUsageReport): string {
  const { from, to, id, days } = report;
  const rows = [...days, { ...report, day: 'total' }].map((day) => [day.day, ...countsOf(day)]);
  return [
    labelOf(report),
    id,
    `Usage from ${from} to ${to} (UTC)`,
    '',
    ...(days.length === 0 ? ['No requests in this period.'] : [table(DAY_TITLES, rows), '', ...conclusionOf(report)]),
  ].join('\n');
}

function countsOf({ admitted, rejected, banned, lists, cancels, listBytes }: DayUsage): string[] {
  return [admitted, rejected, banned, lists, cancels, listBytes].map(count);
}

/** Whether the plan fits, by how much which limit was exceeded, and what the key needs. */
function conclusionOf({ plan, requestsPerMinute, requestsPerDay, ...usage }: KeyUsageReport): string[] {
  if (requestsPerMinute === null || requestsPerDay === null) {
    return usage.state === 'anonymous' ? ['Each address has limits of its own.'] : [];
  }
  const { busiestDay, share, overDay, overMinute, rejected, needs } = usage;
  const lines = [
    `Plan ${plan}: ${count(requestsPerMinute)} requests per minute, ${count(requestsPerDay)} per day.`,
    `Busiest day: ${count(busiestDay)} requests admitted or rejected, ${percent(share)} of the limit per day.`,
  ];
  if (overDay > 0) {
    lines.push(`Requests over the limit per day: up to ${count(overDay)} a day.`);
  }
  if (overMinute > 0) {
    lines.push(`Requests over the limit per minute, on other days: up to ${count(overMinute)} a day.`);
  }
  if (rejected === 0) {
    lines.push('The plan fits: no request was over a limit.');
  }
  if (needs !== null && rejected > 0) {
    lines.push(`The key needs the limits of the plan ${needs} or higher ones.`);
  } else if (needs !== null && needs !== plan) {
    lines.push(`The plan ${needs} would fit, too.`);
  }
  return lines;
}

/** The name of a key, and its state when it is not valid. */
function labelOf({ name, state }: KeyUsage): string {
  return [name, state === 'active' ? null : `(${state})`].filter((part) => part !== null).join(' ');
}

function percent(share: number | null): string {
  return share === null ? '-' : `${Math.floor(share * 100)} %`;
}
