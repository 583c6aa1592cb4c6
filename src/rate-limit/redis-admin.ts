import { asError } from '../common/as-error.js';
import { withDeadline } from '../common/deadline.js';
import { DAY_MS, windowEndSeconds } from './decision.js';
import { createRedis, type LimitRedis, openRedis, watchConnection } from './redis-connection.js';
import { BAN_FIELDS, redisKeyOf } from './redis-script.js';

/** For all commands together: an operator waits at a terminal. Milliseconds. */
const COMMANDS_TIMEOUT_MS = 5_000;

/** The usage of one key as Redis has counted it. */
export interface Usage {
  /** Requests counted since the UTC day began. */
  readonly usedToday: number;
  /** Undefined when there is no ban now. */
  readonly bannedUntil: Date | undefined;
}

/**
 * Reads the counters without consuming quota.
 * @returns one usage a key, in the same order
 * @throws {Error} within seven seconds
 */
export function readUsage(redisUrl: string, keyIds: readonly string[], nowMs: number): Promise<Usage[]> {
  const today = windowEndSeconds(nowMs, DAY_MS);
  return withRedis(redisUrl, (redis) =>
    Promise.all(
      keyIds.map(async (keyId) => {
        const [dayEnd, dayUsed, bannedUntil] = (await redis.hmget(redisKeyOf(keyId), 'de', 'du', 'bu')).map(Number);
        return {
          usedToday: dayEnd === today ? (dayUsed ?? 0) : 0,
          bannedUntil: bannedUntil !== undefined && bannedUntil > nowMs ? new Date(bannedUntil) : undefined,
        };
      }),
    ),
  );
}

/**
 * Ends a ban in the Redis that all replicas share.
 * @throws {Error} when Redis does not confirm it
 */
export async function liftBanInRedis(redisUrl: string, keyId: string): Promise<void> {
  try {
    await withRedis(redisUrl, (redis) => redis.hdel(redisKeyOf(keyId), ...BAN_FIELDS));
  } catch (error) {
    throw new Error(`${asError(error).message}, so the ban may still apply; check REDIS_URL and retry.`, {
      cause: error,
    });
  }
}

/**
 * Opens a connection for some commands and closes it.
 * @throws {Error} within seven seconds, whose message is a clause; commands that were sent may have taken effect
 */
export async function withRedis<T>(redisUrl: string, work: (redis: LimitRedis) => Promise<T>): Promise<T> {
  const redis = createRedis(redisUrl);
  const connectionError = watchConnection(redis);
  try {
    await openRedis(redis);
    return await withDeadline(work(redis), COMMANDS_TIMEOUT_MS);
  } catch (error) {
    throw new Error(`Redis cannot be used (${connectionError() ?? asError(error).message})`, { cause: error });
  } finally {
    redis.disconnect();
  }
}
