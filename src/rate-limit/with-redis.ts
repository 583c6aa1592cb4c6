import { connectRedis, type LimitRedis, untilReady } from './redis-connection.js';

const READY_WAIT_MS = 2_000;

/** Lends a command that runs beside the service a connection to the Redis that the limits are counted in. */
export async function withRedis<T>(redisUrls: readonly string[], work: (redis: LimitRedis) => Promise<T>): Promise<T> {
  const redis = connectRedis(redisUrls);
  // The command under way fails, and says so.
  redis.on('error', () => undefined);
  try {
    await untilReady(redis, READY_WAIT_MS);
    return await work(redis);
  } finally {
    redis.disconnect();
  }
}
