import { Logger } from '@nestjs/common';
import { ReplyError } from 'ioredis';
import { asError } from '../common/as-error.js';
import { withDeadline } from '../common/deadline.js';
import { inBackground } from '../common/in-background.js';
import { lruCache } from '../common/lru-cache.js';
import { CoalescedWrites, type LimitRedis } from './redis-connection.js';
import { redisKeyOf } from './redis-script.js';

/** How long a command may take before the request is decided without Redis. Milliseconds. */
const COMMAND_TIMEOUT_MS = 100;
/** Consecutive failures of commands and connection attempts that open the breaker. */
const BREAKER_FAILURES = 3;
/** How often an open breaker probes Redis. Milliseconds. */
const PROBE_INTERVAL_MS = 1_000;
const PROBE_KEY = 'petstore:probe';
/** Arguments of the probe that no count reaches. */
const UNLIMITED = [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER, 0, 0, 0];

/** Errors that Redis returns whatever the key is. Redis 6 quotes those of a script within another error. */
const SERVER_ERROR =
  /\b(?:READONLY|LOADING|CLUSTERDOWN|MASTERDOWN|OOM|BUSY|MISCONF|NOREPLICAS|NOAUTH|NOPERM|max number of clients)\b/;
/** Keys whose errors have been logged. */
const LOGGED_KEYS_MAX = 1_000;

const UNAVAILABLE = new Error('Redis is unavailable');

/**
 * A circuit breaker around Redis. Logs each change of its state once. While it is open, Redis is probed with the same script as
 * requests: a server that responds to PING may still reject writes. An error that concerns one key, such as WRONGTYPE, does not open it.
 */
export class RedisCircuitBreaker {
  readonly #logger = new Logger('RateLimit');
  /** Consecutive failures; with {@link BREAKER_FAILURES} of them the breaker is open until a probe succeeds. */
  #failures = 0;
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

  /** Whether Redis is unavailable. */
  get isOpen(): boolean {
    return this.#failures >= BREAKER_FAILURES;
  }

  /**
   * Sends a command for the counts of this API key, together with those that other requests send in the same turn of the event loop.
   * @throws {Error} (by rejection) when the command fails or times out, or at once while the breaker is open
   */
  async execute<T>(keyId: string, command: (redis: LimitRedis, key: string) => Promise<T>): Promise<T> {
    if (this.isOpen) {
      throw UNAVAILABLE;
    }
    const key = redisKeyOf(keyId);
    this.#writes.batch();
    try {
      const reply = await withDeadline(command(this.redis, key), COMMAND_TIMEOUT_MS);
      if (this.#failures < BREAKER_FAILURES) {
        this.#failures = 0;
      }
      return reply;
    } catch (error) {
      if (isUnavailable(error)) {
        this.#countFailure(asError(error));
      } else if (!this.#loggedKeys.has(key)) {
        this.#loggedKeys.set(key, true);
        this.#logger.error(`Redis cannot count ${key} (${asError(error).message}), counting it in memory`);
      }
      throw error;
    }
  }

  #countFailure(error: Error): void {
    this.#failures++;
    if (this.#failures === BREAKER_FAILURES) {
      this.#logger.error(`Redis unavailable (${error.message}), counting in memory`);
      this.#probeLater();
    }
  }

  #probeLater(): void {
    setTimeout(() => {
      if (this.redis.status !== 'end') {
        inBackground(this.#probe());
      }
    }, PROBE_INTERVAL_MS).unref();
  }

  async #probe(): Promise<void> {
    try {
      await withDeadline(this.redis.consume(PROBE_KEY, ...UNLIMITED), COMMAND_TIMEOUT_MS);
    } catch (error) {
      if (isUnavailable(error)) {
        this.#probeLater();
        return;
      }
    }
    this.#failures = 0;
    this.#logger.warn('Redis available again, counting in Redis');
    this.recoveries.inc();
  }
}

/** Lost connections, timeouts and {@link SERVER_ERROR}. */
function isUnavailable(error: unknown): boolean {
  return !(error instanceof ReplyError) || SERVER_ERROR.test((error as Error).message);
}
