import { DeadlineExceeded, withDeadline } from '../common/deadline.js';
import { asError } from '../common/as-error.js';
import { connectRedis, type LimitRedis, untilReady } from './redis-connection.js';

const READY_WAIT_MS = 2_000;
/** For all of the work: somebody waits at a terminal. */
const ANSWER_WAIT_MS = 5_000;

/** Redis did not do its part of a command. The message is a clause that says why. What was sent may have been carried out. */
export class RedisUnavailable extends Error {}

/**
 * Lends a command that runs beside the service a connection to the Redis that the limits are counted in.
 * @throws {RedisUnavailable} within seven seconds
 */
export async function withRedis<T>(redisUrls: readonly string[], work: (redis: LimitRedis) => Promise<T>): Promise<T> {
  const redis = connectRedis(redisUrls);
  let connectionError: Error | undefined;
  redis.on('error', (error: Error) => {
    connectionError = error;
  });
  redis.on('ready', () => {
    connectionError = undefined;
  });
  try {
    await untilReady(redis, READY_WAIT_MS);
    return await withDeadline(work(redis), ANSWER_WAIT_MS);
  } catch (error) {
    throw new RedisUnavailable(reasonOf(asError(error), redis, connectionError), { cause: error });
  } finally {
    redis.disconnect();
  }
}

function reasonOf(error: Error, redis: LimitRedis, connectionError: Error | undefined): string {
  if (connectionError !== undefined) {
    return `Redis cannot be reached (${connectionError.message || connectionError.name})`;
  }
  const isSilent = error instanceof DeadlineExceeded || redis.status !== 'ready';
  return isSilent ? 'Redis does not answer' : `Redis refuses (${error.message})`;
}
