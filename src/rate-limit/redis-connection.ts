import { Redis } from 'ioredis';
import { withDeadline } from '../common/deadline.js';
import { CONSUME_SCRIPT, type ConsumeReply } from './redis-script.js';

/** A client of Redis with {@link CONSUME_SCRIPT} as a command. */
export type LimitRedis = Redis & {
  /** @param values those of `consumeArguments` */
  consume(key: string, ...values: readonly number[]): Promise<ConsumeReply>;
};

/**
 * A connection that is not opened in this time, or on which a reply does not arrive, is replaced. Seconds, because ioredis counts the time
 * in which this process is busy: commands whose replies are in the socket are lost then. Milliseconds.
 */
const CONNECTION_TIMEOUT_MS = 5_000;
/** So long a start waits, so that the first requests are counted where later ones are. Milliseconds. */
const READY_TIMEOUT_MS = 2_000;
const RECONNECT_MAX_MS = 1_000;

/**
 * Creates a client without a connection: see {@link openRedis}. No command waits for a connection or is sent a second time, because it
 * may have counted, or would count late. Only `NOSCRIPT` makes ioredis send the text of the script, because then nothing was counted.
 */
export function createRedis(url: string): LimitRedis {
  return new Redis(url, {
    lazyConnect: true,
    connectTimeout: CONNECTION_TIMEOUT_MS,
    socketTimeout: CONNECTION_TIMEOUT_MS,
    keepAlive: 10_000,
    enableAutoPipelining: true,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    // At once after a connection is lost: meanwhile requests are counted in memory.
    retryStrategy: (attempt) => Math.min((attempt - 1) * 50, RECONNECT_MAX_MS),
    // A new connection may lead to the new primary. Redis 6 quotes the error within that of the script.
    reconnectOnError: ({ message }) => message.includes('READONLY'),
    scripts: { consume: { numberOfKeys: 1, lua: CONSUME_SCRIPT } },
  }) as LimitRedis;
}

/**
 * Connects, and goes on trying after a failure.
 * @throws {Error} (by rejection) when the first attempt fails, or Redis is not ready within two seconds
 */
export function openRedis(redis: LimitRedis): Promise<void> {
  return withDeadline(redis.connect(), READY_TIMEOUT_MS);
}

/**
 * Watches why connections fail, which the errors of commands do not say.
 * @returns what says why there is no connection; undefined while there is one
 */
export function watchConnection(redis: LimitRedis): () => string | undefined {
  let lastError: string | undefined;
  redis.on('ready', () => (lastError = undefined));
  // Node's error has no message when a name has several addresses.
  redis.on('error', ({ message, code }: NodeJS.ErrnoException) => (lastError = message || code));
  return () => (redis.status === 'ready' ? undefined : (lastError ?? 'not connected'));
}
