import { Logger, type OnApplicationShutdown } from '@nestjs/common';
import { asError } from '../common/as-error.js';
import { withDeadline } from '../common/deadline.js';
import type { Quotas } from '../plans/plans.js';
import { type Verdict, verdictOf } from './decision.js';
import { MemoryQuotaStore, type QuotaStore, type QuotaStoreOptions } from './memory-quota-store.js';
import { createRedis, type LimitRedis, openRedis, watchConnection } from './redis-connection.js';
import { BAN_FIELDS, consumeArguments, type ConsumeReply, countsOf, redisKeyOf } from './redis-script.js';

/** How long Redis may take for a request before that is decided without it. Milliseconds. */
const RESPONSE_TIMEOUT_MS = 100;
/** Consecutive failures after which requests are counted in memory for {@link RETRY_MS}. */
const FAILURES_MAX = 3;
/** Milliseconds. */
const RETRY_MS = 1_000;

export interface RedisQuotaStoreOptions extends QuotaStoreOptions {
  readonly redis: LimitRedis;
  /** Counts how often Redis is available again. */
  readonly recoveries: { inc(): void };
}

/**
 * Counts the requests of API keys in Redis, exactly for any number of processes: one script and one round trip for each.
 * While Redis fails or is slow, each process counts in its own memory; a request whose reply is lost may count in both.
 */
export class RedisQuotaStore implements QuotaStore, OnApplicationShutdown {
  readonly #logger = new Logger('RateLimit');
  readonly #memory: MemoryQuotaStore;
  readonly #connectionError: () => string | undefined;
  #failures = 0;
  /** When requests ask Redis again, by `performance.now()`; undefined while Redis works. */
  #retryAtMs: number | undefined;

  constructor(private readonly options: RedisQuotaStoreOptions) {
    this.#memory = new MemoryQuotaStore(options);
    this.#connectionError = watchConnection(options.redis);
  }

  /** Connects to Redis. Resolves when it is ready, or after a while without it. */
  static async connect(url: string, options: Omit<RedisQuotaStoreOptions, 'redis'>): Promise<RedisQuotaStore> {
    const store = new RedisQuotaStore({ ...options, redis: createRedis(url) });
    await openRedis(store.options.redis).catch((error: unknown) => {
      store.#countInMemory(error);
    });
    return store;
  }

  onApplicationShutdown(): void {
    this.options.redis.disconnect();
  }

  /** Whether requests are counted by this process alone, as far as the latest one that asked Redis knows. */
  get degraded(): boolean {
    return this.#retryAtMs !== undefined;
  }

  async consume(keyId: string, quotas: Quotas): Promise<Verdict> {
    if (this.#retryAtMs !== undefined && performance.now() < this.#retryAtMs) {
      return this.#memory.consume(keyId, quotas);
    }
    const { redis, banRule } = this.options;
    let reply: ConsumeReply;
    try {
      // Not ioredis's `commandTimeout`, which counts the time in which this process is busy.
      const response = redis.consume(redisKeyOf(keyId), ...consumeArguments(quotas, banRule));
      reply = await withDeadline(response, RESPONSE_TIMEOUT_MS);
    } catch (error) {
      this.#failures++;
      if (this.#failures >= FAILURES_MAX) {
        this.#countInMemory(error);
      }
      return this.#memory.consume(keyId, quotas);
    }
    this.#countInRedis();
    return this.#verdictOf(reply, quotas);
  }

  /** Also in Redis: the command that lifts a ban may not know where that is. */
  liftBan(keyId: string): void {
    this.#memory.liftBan(keyId);
    this.options.redis.hdel(redisKeyOf(keyId), ...BAN_FIELDS).catch((error: unknown) => {
      this.#logger.warn(`could not lift the ban of ${keyId} in Redis: ${this.#reasonOf(error)}`);
    });
  }

  #verdictOf(reply: ConsumeReply, quotas: Quotas): Verdict {
    const [nowMs, counted, , , , , bannedUntilMs, banBegan] = reply;
    if (banBegan === 1) {
      this.options.bans?.inc();
    }
    const rejection = nowMs < bannedUntilMs ? 'banned' : 'limited';
    return verdictOf(counted === 1 ? 'admitted' : rejection, countsOf(reply), quotas, nowMs);
  }

  #countInMemory(error: unknown): void {
    if (!this.degraded) {
      this.#logger.error(`Redis unavailable (${this.#reasonOf(error)}), counting in memory`);
    }
    this.#retryAtMs = performance.now() + RETRY_MS;
  }

  #countInRedis(): void {
    this.#failures = 0;
    if (this.degraded) {
      this.#retryAtMs = undefined;
      this.#logger.warn('Redis available again, counting in Redis');
      this.options.recoveries.inc();
    }
  }

  #reasonOf(error: unknown): string {
    return this.#connectionError() ?? asError(error).message;
  }
}
