import type { Command } from 'commander';
import { onlyKey } from '../api-keys/api-keys.admin.js';
import type { DayUsage, KeyUsage, Period } from '../api-keys/usage-report.js';
import { integer, keyId, pastDay } from './arguments.js';
import { withDatabase } from './command-database.js';
import { count, details, print, shownId, table } from './output.js';

const DAY_MS = 86_400_000;
const DAYS_DEFAULT = 30;
const DAYS_MAX = 3_650;

const TITLES = ['ID', 'PLAN', 'BUSIEST', 'SHARE', 'REJECTED', 'BANNED', 'NEEDS', 'NAME'];
const DAY_TITLES = ['DAY', 'ADMITTED', 'REJECTED', 'BANNED', 'LISTS', 'CANCELS', 'BYTES'];

const USAGE_HELP = `
Of all keys, over the period:
  BUSIEST   the most requests on one day, admitted and rejected
  SHARE     that number divided by the limit per day
  REJECTED  requests over a limit
  BANNED    requests during a temporary ban
  NEEDS     the smallest plan that could have admitted the requests of each day. A "+" means that some were over a
            limit: the key needs this plan or a higher one. Requests per minute are not recorded, so a smaller plan is
            named only if it would admit the busiest day within one minute.
The row (anonymous) has the requests without a valid key. Past days are judged by the plan that a key has now.

Of one key, also:
  overDay     the most requests rejected on one day on which the limit per day was reached: the key needs a higher
              plan, or its client repeats rejected requests
  overMinute  the most requests rejected on one other day: the client sends bursts and ignores Retry-After
  ADMITTED    requests within the limits, whatever their response
  LISTS       responses 200 and 304; BYTES is the size of their bodies as they were sent`;

interface UsageOptions {
  readonly days: number;
  readonly until?: string;
  readonly json?: true;
}

export function addUsageCommand(keys: Command): void {
  keys
    .command('usage')
    .description('show what all keys did, or what one key did on each day')
    .argument('[id]', 'id of a key, or at least its first 8 characters', keyId)
    .option('--days <n>', 'number of days, the last one included', integer(1, DAYS_MAX), DAYS_DEFAULT)
    .option('--until <day>', 'last day in UTC, like 2026-10-31 (default: today)', pastDay)
    .option('--json', 'print one object with all figures')
    .addHelpText('after', USAGE_HELP)
    .action((prefix: string | undefined, options: UsageOptions) =>
      withDatabase(async ({ prisma }) => {
        const { usageOfDays, usageOfKeys } = await import('../api-keys/usage-report.js');
        const period = periodOf(options);
        const keys = await usageOfKeys(prisma, period, prefix);
        if (prefix === undefined) {
          await print(options.json, { ...period, keys }, usageText(period, keys));
        } else {
          const usage = onlyKey(prefix, keys);
          const days = await usageOfDays(prisma, period, usage.id);
          await print(options.json, { ...period, ...usage, days }, keyUsageText(period, usage, days));
        }
      }),
    );
}

function periodOf({ days, until }: UsageOptions): Period {
  const to = until ?? new Date().toISOString().slice(0, 10);
  return { from: new Date(Date.parse(to) - (days - 1) * DAY_MS).toISOString().slice(0, 10), to };
}

/** Formats the usage of all keys, one line per key. */
function usageText({ from, to }: Period, keys: readonly KeyUsage[]): string {
  const rows = keys.map((key) => [
    shownId(key.id),
    key.plan ?? '-',
    count(key.busiestDay),
    percent(key),
    count(key.rejected),
    count(key.banned),
    needsOf(key),
    [key.name ?? '', key.state === 'active' ? '' : `(${key.state})`].join(' ').trim(),
  ]);
  return [`Usage from ${from} to ${to} (UTC)`, '', table(TITLES, rows)].join('\n');
}

/** Formats the usage of one key, one line per day. */
function keyUsageText(period: Period, usage: KeyUsage, days: readonly DayUsage[]): string {
  const rows = days.map(({ day, admitted, rejected, banned, lists, cancels, listBytes }) => [
    day,
    ...[admitted, rejected, banned, lists, cancels, listBytes].map(count),
  ]);
  return [
    details({ ...period, ...usage, share: percent(usage), needs: needsOf(usage) }),
    '',
    days.length === 0 ? 'No requests in this period.' : table(DAY_TITLES, rows),
  ].join('\n');
}

/** The plan that a key needs; `+` when some of its requests were over a limit, so that the plan may be too small, too. */
function needsOf({ needs, rejected }: KeyUsage): string {
  return needs === null ? '-' : `${needs}${rejected > 0 ? '+' : ''}`;
}

function percent({ share }: KeyUsage): string {
  return share === null ? '-' : `${Math.floor(share * 100)} %`;
}
