import { Logger, type OnApplicationShutdown } from '@nestjs/common';
import { asError } from '../common/as-error.js';
import { lruCache } from '../common/lru-cache.js';
import type { Quotas } from '../plans/plans.js';
import { type BanRule, bindingWindow, type Counts, decide, type Verdict, verdictOf } from './decision.js';
import { COUNTED_MAX, MemoryQuotaStore, type QuotaStore, type QuotaStoreOptions } from './memory-quota-store.js';
import { RedisCircuitBreaker } from './redis-circuit-breaker.js';
import { connectRedis, type LimitRedis, untilReady } from './redis-connection.js';
import { BAN_FIELDS, consumeArguments, type ConsumeReply, countsOf, redisKeyOf } from './redis-script.js';

/** How long a remembered rejection is used before one request asks Redis again, for bans and unbans by other processes. */
const RECHECK_MS = 1_000;

/** What Redis has rejected. Not the verdict: the plan may change. */
interface Rejected {
  counts: Counts;
  /**
   * The clock of Redis less ours when the command was sent, in milliseconds. An upper bound: a remembered window ends at
   * the latest when it ends in Redis, so no reset of the past is reported.
   */
  readonly clockOffsetMs: number;
  /** By how much the offset may be too high. */
  readonly latencyMs: number;
  /** Our clock when Redis was last asked. */
  checkedAtMs: number;
}

export interface RedisQuotaStoreOptions extends QuotaStoreOptions {
  readonly redis: LimitRedis;
  /** Counts how often Redis is available again. */
  readonly recoveries: { inc(): void };
}

/**
 * Counts the requests of API keys in Redis, exactly for any number of processes: one script and one round trip for each.
 * What Redis cannot decide is counted in the memory of this process.
 */
export class RedisQuotaStore implements QuotaStore, OnApplicationShutdown {
  readonly #logger = new Logger('RateLimit');
  readonly #breaker: RedisCircuitBreaker;
  readonly #memory: MemoryQuotaStore;
  /** Keys that no request can be admitted for: bans and, without bans, windows without requests remaining. */
  readonly #rejected = lruCache<string, Rejected>(COUNTED_MAX);
  /** Redis counts rejections and decides bans: a rejection must not be counted a second time. */
  readonly #withoutNewBans: BanRule;
  /** The clock of Redis less ours, as of the latest reply. */
  #clockOffsetMs = 0;

  constructor(private readonly options: RedisQuotaStoreOptions) {
    this.#withoutNewBans = { ...options.banRule, threshold: 0 };
    this.#breaker = new RedisCircuitBreaker(options.redis, options.recoveries);
    this.#memory = new MemoryQuotaStore(options);
  }

  /** Connects to Redis. Resolves when it is ready, or after a while without it. */
  static async connect(url: string, options: Omit<RedisQuotaStoreOptions, 'redis'>): Promise<RedisQuotaStore> {
    const redis = connectRedis(url);
    const store = new RedisQuotaStore({ ...options, redis });
    await untilReady(redis);
    return store;
  }

  onApplicationShutdown(): void {
    this.options.redis.disconnect();
  }

  /** Whether requests are counted by this process alone because Redis is unavailable. */
  get degraded(): boolean {
    return this.#breaker.isOpen;
  }

  /** The clock of Redis minus that of this process, at the last request that was counted. Milliseconds. */
  get clockOffsetMs(): number {
    return this.#clockOffsetMs;
  }

  consume(keyId: string, quotas: Quotas): Verdict | Promise<Verdict> {
    const rejected = this.#rejected.get(keyId);
    const rejection = rejected && this.#rejectionBy(rejected, quotas);
    if (rejected === undefined || rejection === undefined) {
      return this.#consumeInRedis(keyId, quotas);
    }
    const nowMs = this.options.clock.now();
    if (Math.abs(nowMs - rejected.checkedAtMs) < RECHECK_MS) {
      return rejection;
    }
    // Of many requests of a rejected key, one a second asks Redis.
    rejected.checkedAtMs = nowMs;
    return this.#consumeInRedis(keyId, quotas);
  }

  liftBan(keyId: string): void {
    this.#memory.liftBan(keyId);
    this.options.redis
      .hdel(redisKeyOf(keyId), ...BAN_FIELDS)
      .catch((error: unknown) => {
        this.#logger.warn(`could not lift the ban of ${keyId} in Redis: ${asError(error).message}`);
      })
      .finally(() => {
        // Only when the replies that Redis has sent before are handled: they may still restore the ban.
        setImmediate(() => this.#rejected.delete(keyId));
      });
  }

  async #consumeInRedis(keyId: string, quotas: Quotas, repeatedWith?: BanRule): Promise<Verdict> {
    const { clock, banRule } = this.options;
    const sentAtMs = performance.now();
    let reply: ConsumeReply;
    try {
      reply = await this.#breaker.consume(keyId, consumeArguments(quotas, repeatedWith ?? banRule));
    } catch {
      const rejected = this.#rejected.get(keyId);
      const rejection = rejected && this.#rejectionBy(rejected, quotas);
      return rejection ?? this.#memory.consume(keyId, quotas, clock.now() + this.#clockOffsetMs);
    }
    const [redisNowMs] = reply;
    const checkedAtMs = clock.now();
    // Not by the clock, which may be set meanwhile.
    const latencyMs = Math.ceil(performance.now() - sentAtMs);
    const clockOffsetMs = redisNowMs - (checkedAtMs - latencyMs);
    const verdict = this.#verdictOf(keyId, quotas, reply);
    this.#clockOffsetMs = clockOffsetMs;
    const hasEnded = redisNowMs + latencyMs >= bindingWindow(verdict).resetAtSeconds * 1_000;
    if (repeatedWith === undefined && verdict.outcome !== 'admitted' && hasEnded) {
      // What rejects may have ended while the reply was on its way. Redis has counted a rejection by a limit already.
      return this.#consumeInRedis(keyId, quotas, verdict.outcome === 'limited' ? this.#withoutNewBans : banRule);
    }
    if (this.#isKnownInAdvance(verdict)) {
      this.#rejected.set(keyId, { counts: countsOf(reply), clockOffsetMs, latencyMs, checkedAtMs });
    } else {
      this.#rejected.delete(keyId);
    }
    return verdict;
  }

  #verdictOf(keyId: string, quotas: Quotas, reply: ConsumeReply): Verdict {
    const [nowMs, counted, , , , , bannedUntilMs, banBegan] = reply;
    // Redis decides again, so a ban of the memory has ended.
    this.#memory.liftBan(keyId);
    if (banBegan === 1) {
      this.options.bans?.inc();
    }
    const rejection = nowMs < bannedUntilMs ? 'banned' : 'limited';
    return verdictOf(counted === 1 ? 'admitted' : rejection, countsOf(reply), quotas, nowMs);
  }

  /** The rejection of a request by what is remembered; undefined when Redis has to decide. */
  #rejectionBy(rejected: Rejected, quotas: Quotas): Verdict | undefined {
    const { counts, clockOffsetMs, latencyMs } = rejected;
    const { verdict, next } = decide(counts, quotas, this.#withoutNewBans, this.options.clock.now() + clockOffsetMs);
    if (!this.#isKnownInAdvance(verdict)) {
      return undefined;
    }
    // The clock may have been set back, which cuts a ban.
    rejected.counts = next;
    // A lower bound of the time, so that Retry-After is never too short.
    return { ...verdict, decidedAtMs: verdict.decidedAtMs - latencyMs };
  }

  /** Whether the next request gets this rejection too. With bans, one over a limit counts towards a ban in Redis. */
  #isKnownInAdvance({ outcome }: Verdict): boolean {
    return outcome === 'banned' || (outcome === 'limited' && this.options.banRule.threshold === 0);
  }
}
