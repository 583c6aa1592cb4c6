import type { KeyRecord } from '../api-keys/api-keys.admin.js';
import { asError } from '../common/as-error.js';
import { quotasOf } from '../plans/plans.js';
import type { Usage } from '../rate-limit/redis-admin.js';
import { subjectOfKey } from '../rate-limit/subject.js';
import { warn } from './output.js';

/** A key as the commands print it; the fields of `--json`. */
export interface KeyView extends KeyRecord {
  readonly state: 'active' | 'banned' | 'expired' | 'revoked';
  /** The effective quotas: those of the plan, or the custom ones of the key. */
  readonly requestsPerMinute: number;
  readonly requestsPerDay: number;
  /** Null without Redis, where each process counts in its own memory, and for a key that is revoked or expired. */
  readonly requestsLeftToday: number | null;
  readonly bannedUntil: Date | null;
}

/** Combines the keys of the database with their usage in Redis, if configured. A failure of Redis is a note on stderr. */
export async function viewsOf(
  records: readonly KeyRecord[],
  redisUrls: readonly string[],
  nowMs: number,
): Promise<KeyView[]> {
  const usages = await usagesOf(records, redisUrls, nowMs);
  return records.map((record, index) => toView(record, usages[index], nowMs));
}

async function usagesOf(records: readonly KeyRecord[], redisUrls: readonly string[], nowMs: number): Promise<Usage[]> {
  if (redisUrls.length === 0 || records.length === 0) {
    return [];
  }
  const { readUsage } = await import('../rate-limit/redis-admin.js');
  const subjects = records.map(({ id }) => subjectOfKey(id));
  try {
    return await readUsage(redisUrls, subjects, nowMs);
  } catch (error) {
    warn(`${asError(error).message}; remaining requests and bans are unknown.`);
    return [];
  }
}

function toView(record: KeyRecord, usage: Usage | undefined, nowMs: number): KeyView {
  const quotas = quotasOf(record.plan, record);
  const state = stateOf(record, usage, nowMs);
  const isInvalid = state === 'revoked' || state === 'expired';
  return {
    ...record,
    ...quotas,
    state,
    requestsLeftToday: usage === undefined || isInvalid ? null : Math.max(0, quotas.requestsPerDay - usage.usedToday),
    bannedUntil: usage?.bannedUntil ?? null,
  };
}

function stateOf({ revokedAt, expiresAt }: KeyRecord, usage: Usage | undefined, nowMs: number): KeyView['state'] {
  if (revokedAt !== null) {
    return 'revoked';
  }
  if (expiresAt !== null && expiresAt.getTime() <= nowMs) {
    return 'expired';
  }
  return usage?.bannedUntil === undefined ? 'active' : 'banned';
}
