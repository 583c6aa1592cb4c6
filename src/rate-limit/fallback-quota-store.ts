import { Logger } from '@nestjs/common';
import { asError } from '../common/as-error.js';
import type { Clock } from '../common/clock.js';
import { inBackground } from '../common/in-background.js';
import type { Quotas } from '../plans/plans.js';
import { type BanRule, UNUSED } from './decision.js';
import { MemoryQuotaStore } from './memory-quota-store.js';
import type { QuotaStore } from './quota-store.js';
import { RedisBans } from './redis-bans.js';
import { RedisCircuitBreakers } from './redis-circuit-breakers.js';
import type { LimitRedis } from './redis-connection.js';
import { RedisQuotaStore } from './redis-quota-store.js';
import { RejectionCache } from './rejection-cache.js';
import type { Verdict } from './verdict.js';

export interface FallbackQuotaStoreOptions {
  readonly redis: LimitRedis;
  readonly clock: Clock;
  readonly banRule: BanRule;
  /** Called for each ban that this process imposes. */
  readonly onBan: (subject: string) => void;
  /** Called when a node of Redis is available again. */
  readonly onRecovered: () => void;
}

/**
 * Counts in Redis, and in the memory of this process while Redis is unavailable. A subject over its limit is rejected from
 * a cache, with at most one round trip a second.
 */
export class FallbackQuotaStore implements QuotaStore {
  readonly #logger = new Logger('RateLimit');
  readonly #breakers: RedisCircuitBreakers;
  readonly #cache: RejectionCache;
  readonly #bans: RedisBans;
  readonly #redis: RedisQuotaStore;
  readonly #memory: MemoryQuotaStore;

  constructor({ redis, clock, banRule, onBan, onRecovered }: FallbackQuotaStoreOptions) {
    const redisClock: Clock = { now: () => clock.now() + this.#redis.clockOffsetMs };
    const saveBan = (subject: string, bannedUntilMs: number): void => {
      onBan(subject);
      inBackground(this.#bans.save(subject, bannedUntilMs));
    };
    this.#breakers = new RedisCircuitBreakers(redis, () => {
      onRecovered();
      this.#bans.saveAll(redisClock.now());
    });
    this.#cache = new RejectionCache(clock, banRule, saveBan);
    this.#bans = new RedisBans(this.#breakers, (subject, bannedUntilMs, inEffectUntilMs) => {
      const cached = this.#cache.get(subject);
      if (cached?.state.bannedUntilMs === bannedUntilMs) {
        this.#cache.set(subject, { ...cached, state: { ...cached.state, bannedUntilMs: inEffectUntilMs } });
      }
    });
    this.#redis = new RedisQuotaStore(this.#breakers, clock, banRule, this.#cache, this.#bans);
    this.#memory = new MemoryQuotaStore(redisClock, banRule, (subject, bannedUntilMs) => {
      const { clockOffsetMs } = this.#redis;
      const state = { ...UNUSED, bannedUntilMs };
      this.#cache.set(subject, { state, clockOffsetMs, latencyMs: 0, checkedAtMs: clock.now() });
      saveBan(subject, bannedUntilMs);
    });
  }

  /** Whether some requests are counted by this process alone because Redis is unavailable. */
  get degraded(): boolean {
    return this.#breakers.degraded;
  }

  /** The clock of Redis minus that of this process, at the last request that was counted. Milliseconds. */
  get clockOffsetMs(): number {
    return this.#redis.clockOffsetMs;
  }

  consume(subject: string, quotas: Quotas): Verdict | Promise<Verdict> {
    if (this.#cache.takeRecheck(subject)) {
      const unsavedUntilMs = this.#bans.unsavedUntilMs(subject);
      if (unsavedUntilMs === undefined) {
        return this.#consumeInRedisOrMemory(subject, quotas);
      }
      // A lone failure opens no breaker, so no recovery would save the ban.
      inBackground(this.#bans.save(subject, unsavedUntilMs));
    }
    return this.#cache.reject(subject, quotas) ?? this.#consumeInRedisOrMemory(subject, quotas);
  }

  rejects(subject: string, quotas: Quotas): boolean {
    return this.#cache.rejects(subject, quotas) || this.#memory.rejects(subject, quotas);
  }

  async liftBan(subject: string): Promise<void> {
    this.#memory.liftBan(subject);
    this.#bans.delete(subject);
    try {
      await this.#redis.liftBan(subject);
    } catch (error) {
      this.#logger.warn(`could not lift the ban of ${subject} in Redis: ${asError(error).message}`);
    }
    this.#cache.delete(subject);
  }

  #consumeInRedisOrMemory(subject: string, quotas: Quotas): Promise<Verdict> {
    return this.#redis
      .consume(subject, quotas)
      .catch(() => this.#cache.reject(subject, quotas) ?? this.#memory.consume(subject, quotas));
  }
}
