import { Logger } from '@nestjs/common';
import { ReplyError } from 'ioredis';
import { asError } from '../common/as-error.js';
import { withDeadline } from '../common/deadline.js';
import { lruCache } from '../common/lru-cache.js';
import { CoalescedWrites, type LimitRedis } from './redis-connection.js';
import { redisKeyOf } from './redis-script.js';

/** How long a command may take before the request is decided without Redis. Milliseconds. */
const COMMAND_TIMEOUT_MS = 100;
/** Consecutive failures of commands and connection attempts that open the breaker. */
const BREAKER_FAILURES = 3;
/** How often an open breaker lets a command through. Milliseconds. */
const PROBE_INTERVAL_MS = 1_000;

/** Errors that Redis returns whatever the key is. Redis 6 quotes those of a script within another error. */
const SERVER_ERROR =
  /\b(?:READONLY|LOADING|CLUSTERDOWN|MASTERDOWN|OOM|BUSY|MISCONF|NOREPLICAS|NOAUTH|NOPERM|max number of clients)\b/;
/** Keys whose errors have been logged. */
const LOGGED_KEYS_MAX = 1_000;

const UNAVAILABLE = new Error('Redis is unavailable');

/**
 * A circuit breaker around Redis. Logs each change of its state once. While it is open, one command a second probes Redis; PING would
 * not do, because a server that responds to it may still reject writes. An error that concerns one key, such as WRONGTYPE, does
 * not open it.
 */
export class RedisCircuitBreaker {
  readonly #logger = new Logger('RateLimit');
  /** Consecutive failures; with {@link BREAKER_FAILURES} of them the breaker is open until a probe succeeds. */
  #failures = 0;
  /** When it opened or last let a command through, by `performance.now()`. */
  #probedAtMs = 0;
  readonly #loggedKeys = lruCache<string, true>(LOGGED_KEYS_MAX);
  readonly #writes: CoalescedWrites;

  /** @param recoveries counts how often Redis is available again */
  constructor(
    private readonly redis: LimitRedis,
    private readonly recoveries: { inc(): void },
  ) {
    this.#writes = new CoalescedWrites(redis);
    redis.on('error', (error: Error) => {
      this.#countFailure(error);
    });
  }

  /** Whether Redis is unavailable, as far as the latest command knows. */
  get isOpen(): boolean {
    return this.#failures >= BREAKER_FAILURES;
  }

  /**
   * Sends a command for the counts of this API key, together with those that other requests send in the same turn of the event loop.
   * @throws {Error} (by rejection) when the command fails or times out; at once while the breaker is open, but for a probe
   */
  async execute<T>(keyId: string, command: (redis: LimitRedis, key: string) => Promise<T>): Promise<T> {
    const isProbe = this.isOpen;
    if (isProbe) {
      if (performance.now() - this.#probedAtMs < PROBE_INTERVAL_MS) {
        throw UNAVAILABLE;
      }
      this.#probedAtMs = performance.now();
    }
    const key = redisKeyOf(keyId);
    this.#writes.batch();
    try {
      const reply = await withDeadline(command(this.redis, key), COMMAND_TIMEOUT_MS);
      this.#countResponse(isProbe);
      return reply;
    } catch (error) {
      if (isUnavailable(error)) {
        this.#countFailure(asError(error));
      } else {
        this.#countResponse(isProbe);
        this.#logOnce(key, asError(error));
      }
      throw error;
    }
  }

  #countFailure(error: Error): void {
    this.#failures++;
    if (this.#failures === BREAKER_FAILURES) {
      this.#probedAtMs = performance.now();
      this.#logger.error(`Redis unavailable (${error.message}), counting in memory`);
    }
  }

  /** A late response to a command from before it opened does not close it: in between it would open and close many times. */
  #countResponse(isProbe: boolean): void {
    if (this.isOpen && !isProbe) {
      return;
    }
    if (this.isOpen) {
      this.#logger.warn('Redis available again, counting in Redis');
      this.recoveries.inc();
    }
    this.#failures = 0;
  }

  #logOnce(key: string, { message }: Error): void {
    if (!this.#loggedKeys.has(key)) {
      this.#loggedKeys.set(key, true);
      this.#logger.error(`Redis cannot count ${key} (${message}), counting it in memory`);
    }
  }
}

/** Lost connections, timeouts and {@link SERVER_ERROR}. */
function isUnavailable(error: unknown): boolean {
  return !(error instanceof ReplyError) || SERVER_ERROR.test((error as Error).message);
}
