import type { KeyRecord } from '../api-keys/api-keys.admin.js';
import { quotasOf } from '../rate-limit/plans.js';

const COLUMN_GAP = '  ';

/** Keys as a table for a person. */
export function keyTable(records: readonly KeyRecord[], nowMs: number): string {
  if (records.length === 0) {
    return 'There are no keys yet. "petstore keys issue --name NAME --plan PLAN" makes one.\n';
  }
  const rows = [
    ['ID', 'NAME', 'KEY', 'PLAN', 'PER MINUTE', 'PER DAY', 'STATE', 'LAST USED'],
    ...records.map((record) => rowOf(record, nowMs)),
  ];
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map(
      (row) =>
        `${row
          .map((cell, column) => cell.padEnd(widths[column] ?? 0))
          .join(COLUMN_GAP)
          .trimEnd()}\n`,
    )
    .join('');
}

function rowOf(record: KeyRecord, nowMs: number): string[] {
  const quotas = quotasOf(record.plan, record);
  return [
    record.id,
    record.name,
    `${record.keyPrefix}…`,
    record.plan,
    quotas.requestsPerMinute.toLocaleString('en'),
    quotas.requestsPerDay.toLocaleString('en'),
    stateOf(record, nowMs),
    record.lastUsedAt === null ? 'never' : minuteOf(record.lastUsedAt),
  ];
}

function stateOf({ revokedAt, expiresAt }: KeyRecord, nowMs: number): string {
  if (revokedAt !== null) {
    return `revoked ${minuteOf(revokedAt)}`;
  }
  if (expiresAt === null) {
    return 'active';
  }
  return `${expiresAt.getTime() <= nowMs ? 'expired' : 'active until'} ${minuteOf(expiresAt)}`;
}

function minuteOf(time: Date): string {
  return `${time.toISOString().slice(0, 16).replace('T', ' ')}Z`;
}
