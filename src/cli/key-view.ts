import type { KeyRecord } from '../api-keys/api-keys.admin.js';
import { asError } from '../common/as-error.js';
import { quotasOf } from '../plans/plans.js';
import { readUsage, type Usage } from '../rate-limit/redis-admin.js';
import { subjectOfKey } from '../rate-limit/subject.js';

/** A key as the commands show it; with `--json`, these are the fields. */
export interface KeyView extends KeyRecord {
  readonly state: 'active' | 'banned' | 'expired' | 'revoked';
  /** The quotas that hold: the plan's, or the key's own. */
  readonly requestsPerMinute: number;
  readonly requestsPerDay: number;
  /** Null when that is not known: without Redis each service counts in its own memory. */
  readonly requestsLeftToday: number | null;
  readonly bannedUntil: Date | null;
}

/** Brings together what the database and, where there is one, Redis know of the keys. Says on stderr when Redis does not tell. */
export async function viewsOf(
  records: readonly KeyRecord[],
  redisUrls: readonly string[],
  nowMs: number,
): Promise<KeyView[]> {
  const usages = await usagesOf(records, redisUrls, nowMs);
  return records.map((record, index) => toView(record, usages[index], nowMs));
}

/** {@link viewsOf} of one key. */
export async function viewOf(record: KeyRecord, redisUrls: readonly string[], nowMs: number): Promise<KeyView> {
  const [usage] = await usagesOf([record], redisUrls, nowMs);
  return toView(record, usage, nowMs);
}

async function usagesOf(records: readonly KeyRecord[], redisUrls: readonly string[], nowMs: number): Promise<Usage[]> {
  if (redisUrls.length === 0 || records.length === 0) {
    return [];
  }
  const subjects = records.map(({ id }) => subjectOfKey(id));
  try {
    return await readUsage(redisUrls, subjects, nowMs);
  } catch (error) {
    const reason = asError(error).message;
    process.stderr.write(`note: ${reason}, so the requests left and the bans are not known.\n`);
    return [];
  }
}

function toView(record: KeyRecord, usage: Usage | undefined, nowMs: number): KeyView {
  const quotas = quotasOf(record.plan, record);
  return {
    ...record,
    ...quotas,
    state: stateOf(record, usage, nowMs),
    requestsLeftToday: usage === undefined ? null : Math.max(0, quotas.requestsPerDay - usage.usedToday),
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
