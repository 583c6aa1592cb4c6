import { Redis, type RedisOptions } from 'ioredis';
import { withDeadline } from '../common/deadline.js';
import { CONSUME_SCRIPT, type ConsumeReply } from './redis-script.js';

/** A client of Redis with {@link CONSUME_SCRIPT} as a command. */
export type LimitRedis = Redis & {
  /** @param values those of `consumeArguments` */
  consume(key: string, ...values: readonly number[]): Promise<ConsumeReply>;
};

const RECONNECT_MAX_MS = 1_000;
/** So long a start waits, so that the first requests are counted where later ones are. */
const READY_TIMEOUT_MS = 2_000;

/** Errors of a server that is not, or not yet, the primary: a new connection may reach the primary. Redis 6 quotes those of a script. */
const WRONG_SERVER_ERROR = /\b(?:READONLY|LOADING|MASTERDOWN|NOAUTH)\b/;

/**
 * Every command is sent at most once and never queued while there is no connection: a script that timed out may have counted,
 * and queued commands would all run late, when Redis returns. Only `NOSCRIPT` makes the client send the script's text, because
 * then nothing was counted.
 */
const COMMAND_OPTIONS = {
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  enableAutoPipelining: true,
  connectTimeout: 1_500,
  // A connection on which a command gets no reply for this long is replaced. Well above the timeout of a command, so
  // that neither a slow reply nor a busy event loop breaks it.
  socketTimeout: 2_000,
  keepAlive: 10_000,
  reconnectOnError: ({ message }) => WRONG_SERVER_ERROR.test(message),
} satisfies RedisOptions;

export function connectRedis(url: string): LimitRedis {
  const retryStrategy = (attempt: number): number => Math.min(attempt * 50, RECONNECT_MAX_MS);
  const redis = new Redis(url, { ...COMMAND_OPTIONS, retryStrategy });
  redis.defineCommand('consume', { numberOfKeys: 1, lua: CONSUME_SCRIPT });
  redis.on('error', (error: Error & { command?: { name: string } }) => {
    // ioredis would go on in database 0.
    if (error.command?.name === 'select') {
      redis.disconnect(true);
    }
  });
  return redis as LimitRedis;
}

/** Calls the listener when a connection ends or an attempt to connect fails, with the error if there was one. */
export function onConnectionLost(redis: LimitRedis, listener: (reason: string | undefined) => void): void {
  // The errors after the first one are its consequences.
  let reason: string | undefined;
  redis.on('error', ({ message, code }: NodeJS.ErrnoException) => {
    // A server without TLS waits for the rest of what it takes for a command.
    const hint = code === 'ETIMEDOUT' && redis.options.tls ? '; check that the server uses TLS' : '';
    reason ??= `${message || code}${hint}`;
  });
  redis.on('close', () => {
    listener(reason);
    reason = undefined;
  });
}

/** Resolves when Redis is ready, or after two seconds. Call as soon as it is connected. */
export async function untilReady(redis: LimitRedis): Promise<void> {
  const ready = new Promise((resolve) => redis.once('ready', resolve));
  await withDeadline(ready, READY_TIMEOUT_MS).catch(() => undefined);
}
