import { Redis, type RedisOptions } from 'ioredis';
import { withDeadline } from '../common/deadline.js';
import { inBackground } from '../common/in-background.js';
import { CONSUME_SCRIPT, type ConsumeReply } from './redis-script.js';

/** A client of Redis with {@link CONSUME_SCRIPT} as a command. */
export type LimitRedis = Redis & {
  /** @param values those of `consumeArguments` */
  consume(key: string, ...values: readonly number[]): Promise<ConsumeReply>;
};

const RECONNECT_MAX_MS = 1_000;
/**
 * A connection that is not ready, or on which a command gets no reply, in this time is replaced. Well above the timeout of a command, so that
 * a slow Redis keeps its connections. Milliseconds.
 */
const RESPONSE_TIMEOUT_MS = 1_500;
/** So long a start waits, so that the first requests are counted where later ones are. */
const READY_TIMEOUT_MS = 2_000;

/** Errors of a server that is not, or not yet, the primary: a new connection may reach the primary. Redis 6 quotes those of a script. */
const WRONG_SERVER_ERROR = /\b(?:READONLY|LOADING|MASTERDOWN|NOAUTH)\b/;

/**
 * ioredis sends every command at most once and never queues it while there is no connection: a script that timed out may have counted,
 * and queued commands would all run late, when Redis returns. Only `NOSCRIPT` makes the client send the script's text, because
 * then nothing was counted.
 */
const COMMAND_OPTIONS = {
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  enableAutoPipelining: true,
  // Timers of ioredis end what has its response in the socket, when this process gets no processor for a while: so there is no
  // `socketTimeout`, which would fail commands that Redis has counted. These two concern no command: before a connection is ready none
  // is sent, and one that is given up has had its time.
  connectTimeout: RESPONSE_TIMEOUT_MS,
  disconnectTimeout: 100,
  keepAlive: 10_000,
  reconnectOnError: ({ message }) => WRONG_SERVER_ERROR.test(message),
} satisfies RedisOptions;

export function connectRedis(url: string): LimitRedis {
  // At once after a connection is lost: requests wait for the next one.
  const retryStrategy = (attempt: number): number => Math.min((attempt - 1) * 50, RECONNECT_MAX_MS);
  const redis = new Redis(url, { ...COMMAND_OPTIONS, retryStrategy });
  redis.defineCommand('consume', { numberOfKeys: 1, lua: CONSUME_SCRIPT });
  redis.on('error', (error: Error & { command?: { name: string } }) => {
    // ioredis would go on in database 0.
    if (error.command?.name === 'select') {
      redis.disconnect(true);
    }
  });
  let endHandshake: () => void = () => undefined;
  redis.on('connect', () => {
    // ioredis waits without bound for the replies to AUTH, SELECT and INFO.
    const handshake = new Promise<void>((resolve) => (endHandshake = resolve));
    inBackground(reconnectUnless(redis, handshake));
  });
  for (const event of ['ready', 'close']) {
    redis.on(event, () => {
      endHandshake();
    });
  }
  return redis as LimitRedis;
}

/** Replaces the connection, unless a response settles in time. Time in which this process gets no processor does not count. */
export async function reconnectUnless(redis: Redis, response: Promise<unknown>): Promise<void> {
  await withDeadline(Promise.allSettled([response]), RESPONSE_TIMEOUT_MS).catch((error: unknown) => {
    // As the reason why it is closed.
    redis.emit('error', error);
    redis.disconnect(true);
  });
}

/** Calls the listener when a connection ends or an attempt to connect fails, with the error if there was one. */
export function onConnectionLost(redis: LimitRedis, listener: (reason: string | undefined) => void): void {
  // The errors after the first one are its consequences.
  let reason: string | undefined;
  redis.on('error', ({ message, code, syscall }: NodeJS.ErrnoException) => {
    // A server without TLS waits for the rest of what it takes for a command.
    const hint =
      code === 'ETIMEDOUT' && syscall === 'connect' && redis.options.tls ? '; check that the server uses TLS' : '';
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
