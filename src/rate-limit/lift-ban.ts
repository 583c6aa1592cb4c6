import { redisKeyOf } from './redis-scripts.js';
import type { Subject } from './subject.js';
import { withRedis } from './with-redis.js';

/**
 * Ends a ban where all replicas keep it, for a command that runs beside them.
 * @throws {Error} when Redis cannot be reached
 */
export async function liftBanInRedis(redisUrls: readonly string[], subject: Subject): Promise<void> {
  try {
    await withRedis(redisUrls, (redis) => redis.hdel(redisKeyOf(subject), 'bu'));
  } catch (error) {
    throw new Error('Redis cannot be reached, so the ban stands; check REDIS_URL and try again.', { cause: error });
  }
}
