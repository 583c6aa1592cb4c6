import type { Duplex } from 'node:stream';
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
 * Every command is sent at most once and never queued: a script that timed out may have counted, and queued commands
 * would all run late, when Redis returns. Only `NOSCRIPT` makes the client send the script's text, because then nothing
 * was counted.
 */
const COMMAND_OPTIONS = {
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  connectTimeout: 2_000,
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
  return redis as LimitRedis;
}

/** Resolves when Redis is ready, or after two seconds. Call as soon as it is connected. */
export async function untilReady(redis: LimitRedis): Promise<void> {
  const ready = new Promise((resolve) => redis.once('ready', resolve));
  await withDeadline(ready, READY_TIMEOUT_MS).catch(() => undefined);
}

/** Commands written together at most: Redis runs them while we read the next requests. */
const BATCH_MAX = 16;

/**
 * Writes the commands of one turn of the event loop in few system calls. Each stays a command of its own; the pipelining
 * of ioredis would do the same, but does not load a script again that Redis has evicted.
 */
export class CoalescedWrites {
  /** The connection that is corked until this turn ends. */
  #corked: Duplex | undefined;
  #batched = 0;

  constructor(private readonly redis: LimitRedis) {}

  /** Call before a command is sent. */
  batch(): void {
    if (this.#corked === undefined && this.redis.status === 'ready') {
      this.#corked = this.redis.stream;
      this.#corked.cork();
      setImmediate(this.#uncork);
    } else if (this.#batched % BATCH_MAX === 0) {
      this.#corked?.uncork();
      this.#corked?.cork();
    }
    this.#batched++;
  }

  readonly #uncork = (): void => {
    this.#corked?.uncork();
    this.#corked = undefined;
    this.#batched = 0;
  };
}
