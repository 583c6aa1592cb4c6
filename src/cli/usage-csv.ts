import type { DayUsage, KeyUsage, KeyUsageReport, UsageReport } from '../api-keys/usage/usage-report.js';

const COUNTS = ['admitted', 'rejected', 'banned', 'lists', 'cancels', 'listBytes'] as const;

const KEY_FIELDS = [
  'id',
  'name',
  'plan',
  'state',
  'requestsPerDay',
  'p95PerDay',
  'p95Denied',
  'share',
  'fits',
  'orHigher',
] as const;

/** A report as CSV (RFC 4180) with the field names of the JSON document: a line per key, or per day of one key. */
export function csvOf(report: UsageReport | KeyUsageReport): string {
  return 'keys' in report
    ? csv<KeyUsage>([...KEY_FIELDS, ...COUNTS], [...report.keys, report.anonymous])
    : csv<DayUsage>(['day', ...COUNTS], report.days);
}

function csv<Row>(fields: readonly (keyof Row & string)[], rows: readonly Row[]): string {
  const lines = rows.map((row) => fields.map((field) => quoted(String(row[field] ?? ''))));
  return [fields, ...lines].map((line) => `${line.join(',')}\r\n`).join('');
}

/** A spreadsheet would run a text that begins like a formula: an apostrophe makes it a text. */
function quoted(text: string): string {
  const plain = /^[=+\-@＝＋－＠]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
}
