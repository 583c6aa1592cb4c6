import { Argument, type Command } from 'commander';
import type { KeyUsageReport, UsageReport } from '../api-keys/usage/usage-report.js';
import { integer, keyId, pastDay } from './arguments.js';
import type { TableAccess } from './command-database.js';
import { print } from './output.js';

const DAYS_DEFAULT = 30;
const DAYS_MAX = 3_650;

const ACCESS: readonly TableAccess[] = [
  { table: 'api_keys', privileges: ['SELECT'] },
  { table: 'api_key_usage', privileges: ['SELECT'] },
];

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
    .action(async (key: string | undefined, options: UsageOptions) => {
      const report = await readReport(key, options);
      const { keyUsageText, usageText } = await import('./usage-text.js');
      await print(options.json, report, 'keys' in report ? usageText(report) : keyUsageText(report));
    });
}

async function readReport(
  key: string | undefined,
  { days, until }: UsageOptions,
): Promise<UsageReport | KeyUsageReport> {
  const { withDatabase } = await import('./command-database.js');
  const { reportKeyUsage, reportUsage } = await import('../api-keys/usage/usage-report.js');
  return withDatabase<UsageReport | KeyUsageReport>(ACCESS, (db) =>
    key === undefined ? reportUsage(db, days, until) : reportKeyUsage(db, key, days, until),
  );
}

function keyIdOrAnonymous(text: string): string {
  return text === 'anonymous' ? text : keyId(text);
}
