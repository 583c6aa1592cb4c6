import { Logger } from '@nestjs/common';
import { ReplyError } from 'ioredis';
import { asError } from '../common/as-error.js';
import { withDeadline } from '../common/deadline.js';
import { inBackground } from '../common/in-background.js';
import { lruCache } from '../common/lru-cache.js';
import { type LimitRedis, onConnectionLost, reconnectUnless } from './redis-connection.js';
import { consumeArguments, type ConsumeReply, redisKeyOf } from './redis-script.js';

/** How long a command may take before the request is decided without Redis. Milliseconds. */
const COMMAND_TIMEOUT_MS = 100;
/** Consecutive failures of requests and connections that open the breaker. */
const BREAKER_FAILURES = 3;
/** How often Redis is probed. Milliseconds. */
const PROBE_INTERVAL_MS = 1_000;
/** A key of its own, with limits that are never reached, and without bans. */
const PROBE = {
  key: redisKeyOf('probe'),
  values: consumeArguments(
    { requestsPerMinute: Number.MAX_SAFE_INTEGER, requestsPerDay: Number.MAX_SAFE_INTEGER },
    { threshold: 0, windowSeconds: 0, durationSeconds: 0 },
  ),
};

/**
 * Errors that Redis returns whatever the key is, such as a right that the script needs and the user lacks. Redis 6 quotes those of a
 * script within another error.
 */
const SERVER_ERROR =
  /\b(?:READONLY|LOADING|CLUSTERDOWN|MASTERDOWN|OOM|BUSY|MISCONF|NOREPLICAS|NOAUTH|NOPERM|max number of clients|user executing the script)\b/;
/** Keys whose errors have been logged. */
const LOGGED_KEYS_MAX = 1_000;

const CLOSED = 'connection closed';
const UNAVAILABLE = new Error('Redis is unavailable');

/**
 * A circuit breaker around Redis. Logs each change of its state once, and why it cannot connect when that shows only later. A probe
 * closes it, and no request: Redis may restart while there are none. The probes never end, so no connection is closed for being idle.
 * PING would not do, because a server that responds to it may still reject the script. An error that concerns one key, such as
 * WRONGTYPE, does not open it.
 */
export class RedisCircuitBreaker {
  readonly #logger = new Logger('RateLimit');
  /** Consecutive failures; with {@link BREAKER_FAILURES} of them the breaker is open until a probe succeeds. */
  #failures = 0;
  /** The first error of a connection since Redis was available. */
  #unreachableBecause: string | undefined;
  #isWatching = false;
  /** While requests wait for a connection. */
  #ready: Promise<unknown> | undefined;
  readonly #loggedKeys = lruCache<string, true>(LOGGED_KEYS_MAX);

  /** @param recoveries counts how often Redis is available again */
  constructor(
    private readonly redis: LimitRedis,
    private readonly recoveries: { inc(): void },
  ) {
    onConnectionLost(redis, (reason) => {
      if (this.isOpen && this.#unreachableBecause === undefined && reason !== undefined) {
        this.#logger.error(`cannot connect to Redis (${reason})`);
      }
      this.#unreachableBecause ??= reason;
      this.#countFailure(reason ?? CLOSED);
    });
    const probing = setInterval(() => {
      inBackground(this.#probe());
    }, PROBE_INTERVAL_MS).unref();
    redis.once('end', () => {
      clearInterval(probing);
    });
  }

  /** Whether Redis is unavailable, as far as the latest request or probe knows. */
  get isOpen(): boolean {
    return this.#failures >= BREAKER_FAILURES;
  }

  /**
   * Counts a request of this API key.
   * @param values those of `consumeArguments`
   * @throws {Error} (by rejection) when the command fails or times out; at once while the breaker is open
   */
  async consume(keyId: string, values: readonly number[]): Promise<ConsumeReply> {
    if (this.isOpen) {
      throw UNAVAILABLE;
    }
    const key = redisKeyOf(keyId);
    try {
      if (this.redis.status !== 'ready') {
        await this.#untilReady();
      }
      // Redis may have counted a command whose connection is lost. Counted twice, fewer are admitted than the plan has; in the memory
      // of this process, whose quota is not used up, it would be more.
      const reply = await this.#send(key, values).catch(async (error: unknown) => {
        if (isReplyOrTimeout(error)) {
          throw error;
        }
        await this.#untilReady();
        return this.#send(key, values);
      });
      this.#countSuccess(false);
      return reply;
    } catch (thrown) {
      const error = asError(thrown);
      if (isServerFailure(error)) {
        this.#countFailure(this.#unreachableBecause ?? error.message);
      } else if (error instanceof ReplyError) {
        this.#logOnce(key, error);
      }
      throw error;
    }
  }

  /** Waits while a connection takes the place of one that was closed, as when a proxy restarts. */
  #untilReady(): Promise<unknown> {
    this.#ready ??= withDeadline(new Promise((resolve) => this.redis.once('ready', resolve)), COMMAND_TIMEOUT_MS)
      .catch((error: unknown) => {
        // Once, and not for each of those who wait.
        this.#countFailure(this.#unreachableBecause ?? asError(error).message);
        throw UNAVAILABLE;
      })
      .finally(() => {
        this.#ready = undefined;
      });
    return this.#ready;
  }

  async #probe(): Promise<void> {
    if (this.redis.status === 'ready') {
      await this.#send(PROBE.key, PROBE.values).then(
        () => {
          this.#countSuccess(true);
        },
        (error: unknown) => {
          // The end of its connection is counted already.
          if (isReplyOrTimeout(error)) {
            this.#countFailure(asError(error).message);
          }
        },
      );
    }
  }

  async #send(key: string, values: readonly number[]): Promise<ConsumeReply> {
    const response = this.redis.consume(key, ...values);
    if (!this.#isWatching) {
      inBackground(this.#watch(response));
    }
    return withDeadline(response, COMMAND_TIMEOUT_MS);
  }

  /** Replaces a connection on which Redis no longer replies. One command at a time shows it: replies arrive in order. */
  async #watch(response: Promise<unknown>): Promise<void> {
    this.#isWatching = true;
    await reconnectUnless(this.redis, response);
    this.#isWatching = false;
  }

  #countFailure(reason: string): void {
    this.#failures++;
    if (this.#failures === BREAKER_FAILURES) {
      this.#logger.error(`Redis unavailable (${reason}), counting in memory`);
    }
  }

  /** A late reply to a command from before it opened does not close it: in between it would open and close many times. */
  #countSuccess(isProbe: boolean): void {
    if (this.isOpen && !isProbe) {
      return;
    }
    if (this.isOpen) {
      this.#logger.warn('Redis available again, counting in Redis');
      this.recoveries.inc();
    }
    this.#failures = 0;
    this.#unreachableBecause = undefined;
  }

  #logOnce(key: string, { message }: Error): void {
    if (!this.#loggedKeys.has(key)) {
      this.#loggedKeys.set(key, true);
      this.#logger.error(`Redis cannot count ${key} (${message}), counting it in memory`);
    }
  }
}

function isReplyOrTimeout(error: unknown): boolean {
  return error instanceof ReplyError || (error as NodeJS.ErrnoException).code === 'ETIMEDOUT';
}

/** A timeout or {@link SERVER_ERROR}. A lost connection is counted once, not for each of its commands. */
function isServerFailure(error: Error & { code?: string }): boolean {
  return error.code === 'ETIMEDOUT' || (error instanceof ReplyError && SERVER_ERROR.test(error.message));
}
