import { redisKeyOf } from './redis-scripts.js';
import type { Subject } from './subject.js';
import { DAY_MS, windowEndSeconds } from './windows.js';
import { withRedis } from './with-redis.js';

/** How a subject stands, as far as Redis knows. */
export interface Usage {
  /** Requests counted since the UTC day began. */
  readonly usedToday: number;
  /** Undefined when there is no ban now. */
  readonly bannedUntil: Date | undefined;
}

/**
 * Looks at the counters and counts nothing.
 * @returns one usage a subject, in the same order
 * @throws {RedisUnavailable}
 */
export function readUsage(redisUrls: readonly string[], subjects: readonly Subject[], nowMs: number): Promise<Usage[]> {
  const today = windowEndSeconds(nowMs, DAY_MS);
  return withRedis(redisUrls, (redis) =>
    Promise.all(
      subjects.map(async (subject) => {
        const [dayEnd, dayUsed, bannedUntil] = (await redis.hmget(redisKeyOf(subject), 'de', 'du', 'bu')).map(Number);
        return {
          usedToday: dayEnd === today ? (dayUsed ?? 0) : 0,
          bannedUntil: bannedUntil !== undefined && bannedUntil > nowMs ? new Date(bannedUntil) : undefined,
        };
      }),
    ),
  );
}
