import type { KeyRecord } from '../api-keys/api-keys.admin.js';
import type { KeyState } from '../api-keys/key.js';
import { asError } from '../common/as-error.js';
import { quotasOf } from '../plans/plans.js';
import type { Usage } from '../rate-limit/redis-admin.js';
import { redisUrl } from './command-database.js';
import { count, shownId, table, timeText, warn } from './output.js';

/** A key as the commands print it; the fields of `--json`. */
export interface KeyView extends Omit<KeyRecord, 'state'> {
  readonly state: KeyState | 'banned';
  /** The effective quotas: those of the plan, or the custom ones of the key. */
  readonly requestsPerMinute: number;
  readonly requestsPerDay: number;
  /** Null without Redis, where each process counts in its own memory, and for a key that is revoked or expired. */
  readonly requestsLeftToday: number | null;
  /** Null when that is unknown: without Redis, or while it cannot be used. */
  readonly banned: boolean | null;
  readonly bannedUntil: Date | null;
}

/** Combines the keys of the database with their usage in Redis, if configured. A failure of Redis is a note on stderr. */
export async function viewsOf(records: readonly KeyRecord[]): Promise<KeyView[]> {
  const usages = await usagesOf(records);
  return records.map((record, index) => {
    const quotas = quotasOf(record.plan, record);
    const usage = usages[index];
    const isValid = record.state === 'active';
    const bannedUntil = usage?.bannedUntil ?? null;
    const requestsLeft = usage === undefined ? null : Math.max(0, quotas.requestsPerDay - usage.usedToday);
    const state = isValid && bannedUntil !== null ? 'banned' : record.state;
    const banned = usage === undefined ? null : bannedUntil !== null;
    return { ...record, ...quotas, state, requestsLeftToday: isValid ? requestsLeft : null, banned, bannedUntil };
  });
}

async function usagesOf(records: readonly KeyRecord[]): Promise<Usage[]> {
  const url = await redisUrl();
  if (url === undefined || records.length === 0) {
    return [];
  }
  const { readUsage } = await import('../rate-limit/redis-admin.js');
  const ids = records.map(({ id }) => id);
  return readUsage(url, ids, Date.now()).catch((error: unknown) => {
    warn(`${asError(error).message}; remaining requests and bans are unknown.`);
    return [];
  });
}

/** Formats keys as a table. */
export function keyTable(keys: readonly KeyView[]): string {
  if (keys.length === 0) {
    return 'There are no keys yet. Run "petstore keys issue --name NAME --plan PLAN" to issue one.';
  }
  const rows = keys.map(({ id, plan, state, bannedUntil, requestsLeftToday, lastUsedAt, expiresAt, name }) => [
    shownId(id),
    plan,
    state === 'banned' && bannedUntil !== null ? `banned until ${timeText(bannedUntil)}` : state,
    requestsLeftToday === null ? '-' : count(requestsLeftToday),
    dayOf(lastUsedAt),
    dayOf(expiresAt),
    name,
  ]);
  return table(['ID', 'PLAN', 'STATE', 'LEFT TODAY', 'LAST USED', 'EXPIRES', 'NAME'], rows);
}

function dayOf(time: Date | null): string {
  return time === null ? 'never' : timeText(time).slice(0, 10);
}
