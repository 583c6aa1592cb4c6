import { asError } from '../common/as-error.js';
import { redisKeyOf } from './redis-scripts.js';
import type { Subject } from './subject.js';
import { withRedis } from './with-redis.js';

/**
 * Ends a ban where all replicas keep it, for a command that runs beside them.
 * @throws {Error} when Redis does not confirm it
 */
export async function liftBanInRedis(redisUrls: readonly string[], subject: Subject): Promise<void> {
  try {
    await withRedis(redisUrls, (redis) => redis.hdel(redisKeyOf(subject), 'bu'));
  } catch (error) {
    throw new Error(`${asError(error).message}, so the ban may stand; check REDIS_URL and try again.`, {
      cause: error,
    });
  }
}
