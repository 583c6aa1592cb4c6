import { connectRedis, untilReady } from './redis-connection.js';
import { redisKeyOf } from './redis-scripts.js';
import type { Subject } from './subject.js';

const READY_WAIT_MS = 2_000;

/**
 * Ends a ban where all replicas keep it, for a command that runs beside them.
 * @throws {Error} when Redis cannot be reached
 */
export async function liftBanInRedis(redisUrls: readonly string[], subject: Subject): Promise<void> {
  const redis = connectRedis(redisUrls);
  redis.on('error', () => undefined);
  try {
    await untilReady(redis, READY_WAIT_MS);
    await redis.hdel(redisKeyOf(subject), 'bu');
  } catch (error) {
    throw new Error('Redis cannot be reached, so the ban stands; check REDIS_URL and try again.', { cause: error });
  } finally {
    redis.disconnect();
  }
}
