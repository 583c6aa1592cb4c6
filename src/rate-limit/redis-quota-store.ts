import { Logger, type OnApplicationShutdown } from '@nestjs/common';
import { asError } from '../common/as-error.js';
import type { Clock } from '../common/clock.js';
import { lruCache } from '../common/lru-cache.js';
import type { Quotas } from '../plans/plans.js';
import {
  type BanRule,
  DAY_MS,
  decide,
  MINUTE_MS,
  type SubjectState,
  UNUSED,
  verdictOf,
  windowEndSeconds,
} from './decision.js';
import { resetAtSecondsOf } from './headers.js';
import { MemoryQuotaStore, SUBJECTS_MAX } from './memory-quota-store.js';
import type { QuotaStore } from './quota-store.js';
import { RedisCircuitBreakers } from './redis-circuit-breakers.js';
import { type LimitRedis, untilReady } from './redis-connection.js';
import { BAN_FIELDS, consumeArguments, type ConsumeReply } from './redis-scripts.js';
import { isKeySubject } from './subject.js';
import type { Verdict } from './verdict.js';

/** How long a remembered rejection is used before one request asks Redis again, for bans and unbans by other processes. */
const RECHECK_MS = 1_000;
/** Rejections are counted in Redis, so reading the remembered state counts none. */
const WITHOUT_BANS: BanRule = { threshold: 0, windowSeconds: 0, durationSeconds: 0 };

/** The state of a subject that Redis has rejected. Not the verdict: its plan may change. */
interface Rejected {
  readonly state: SubjectState;
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

export interface RedisQuotaStoreOptions {
  readonly redis: LimitRedis;
  readonly clock: Clock;
  readonly banRule: BanRule;
  /** Called for each ban that a request of this process starts. */
  readonly onBan: (subject: string) => void;
  /** Called when a node of Redis is available again. */
  readonly onRecovered: () => void;
}

/**
 * Counts the requests of keys in Redis, exactly for any number of processes: one script and one round trip for each.
 * What Redis cannot decide, and requests without a valid key, is counted in the memory of this process.
 */
export class RedisQuotaStore implements QuotaStore, OnApplicationShutdown {
  readonly #logger = new Logger('RateLimit');
  readonly #breakers: RedisCircuitBreakers;
  readonly #memory: MemoryQuotaStore;
  /** Subjects that no request can be admitted for: bans and, without bans, windows without requests remaining. */
  readonly #rejected = lruCache<string, Rejected>(SUBJECTS_MAX);
  /** The clock of Redis less ours, as of the latest reply. */
  #clockOffsetMs = 0;

  constructor(private readonly options: RedisQuotaStoreOptions) {
    const { redis, clock, banRule, onBan, onRecovered } = options;
    this.#breakers = new RedisCircuitBreakers(redis, onRecovered);
    this.#memory = new MemoryQuotaStore(clock, banRule, onBan);
  }

  /** Whether the requests of some keys are counted by this process alone because Redis is unavailable. */
  get degraded(): boolean {
    return this.#breakers.degraded;
  }

  /** The clock of Redis minus that of this process, at the last request that was counted. Milliseconds. */
  get clockOffsetMs(): number {
    return this.#clockOffsetMs;
  }

  consume(subject: string, quotas: Quotas): Verdict | Promise<Verdict> {
    if (!isKeySubject(subject)) {
      return this.#memory.consume(subject, quotas);
    }
    const rejection = this.#rejectionOf(subject, quotas);
    return rejection === undefined || this.#takeRecheck(subject) ? this.#consumeInRedis(subject, quotas) : rejection;
  }

  liftBan(subject: string): void {
    this.#memory.liftBan(subject);
    this.#breakers
      .execute(subject, (redis, key) => redis.hdel(key, ...BAN_FIELDS))
      .catch((error: unknown) => {
        this.#logger.warn(`could not lift the ban of ${subject} in Redis: ${asError(error).message}`);
      })
      .finally(() => {
        // Only now: a reply that Redis has sent before may still have restored the ban.
        this.#rejected.delete(subject);
      });
  }

  /** Resolves when Redis is ready, or after `timeoutMs`, so that the first requests are counted where later ones are. */
  untilReady(timeoutMs: number): Promise<void> {
    return untilReady(this.options.redis, timeoutMs);
  }

  /** Called by Nest. */
  onApplicationShutdown(): void {
    this.options.redis.disconnect();
  }

  async #consumeInRedis(subject: string, quotas: Quotas, mayRepeat = true): Promise<Verdict> {
    const { clock, banRule } = this.options;
    const sentAtMs = clock.now();
    let reply: ConsumeReply;
    try {
      const values = consumeArguments(quotas, banRule);
      reply = await this.#breakers.execute(subject, (redis, key) => redis.consume(key, ...values));
    } catch {
      const redisNowMs = clock.now() + this.#clockOffsetMs;
      return this.#rejectionOf(subject, quotas) ?? this.#memory.consume(subject, quotas, redisNowMs);
    }
    const checkedAtMs = clock.now();
    const latencyMs = Math.max(0, checkedAtMs - sentAtMs);
    const verdict = this.#verdictOf(subject, quotas, reply);
    this.#clockOffsetMs = reply[0] - sentAtMs;
    if (mayRepeat && verdict.outcome !== 'admitted' && reply[0] + latencyMs >= resetAtSecondsOf(verdict) * 1_000) {
      // What rejects may have ended while the reply was on its way.
      return this.#consumeInRedis(subject, quotas, false);
    }
    if (this.#isKnownInAdvance(verdict)) {
      const clockOffsetMs = this.#clockOffsetMs;
      this.#rejected.set(subject, { state: stateOf(reply), clockOffsetMs, latencyMs, checkedAtMs });
    } else {
      this.#rejected.delete(subject);
    }
    return verdict;
  }

  #verdictOf(subject: string, quotas: Quotas, reply: ConsumeReply): Verdict {
    const [nowMs, counted, , , bannedUntilMs, banBegan] = reply;
    // Redis decides again, so a ban of the memory has ended.
    this.#memory.liftBan(subject);
    if (banBegan === 1) {
      this.options.onBan(subject);
    }
    const rejection = nowMs < bannedUntilMs ? 'banned' : 'limited';
    return verdictOf(counted === 1 ? 'admitted' : rejection, stateOf(reply), quotas, nowMs);
  }

  /** The rejection of a request by the remembered state; undefined when Redis has to decide. */
  #rejectionOf(subject: string, quotas: Quotas): Verdict | undefined {
    const rejected = this.#rejected.get(subject);
    if (rejected === undefined) {
      return undefined;
    }
    const { state, clockOffsetMs, latencyMs } = rejected;
    const { verdict } = decide(state, quotas, WITHOUT_BANS, this.options.clock.now() + clockOffsetMs);
    // A lower bound of the time, so that Retry-After is never too short.
    return this.#isKnownInAdvance(verdict) ? { ...verdict, decidedAtMs: verdict.decidedAtMs - latencyMs } : undefined;
  }

  /** Whether the next request gets this rejection too. With bans, one over a limit counts towards a ban in Redis. */
  #isKnownInAdvance({ outcome }: Verdict): boolean {
    return outcome === 'banned' || (outcome === 'limited' && this.options.banRule.threshold === 0);
  }

  /** Whether Redis is to be asked again. True once a second for each remembered subject, so that of many requests one asks. */
  #takeRecheck(subject: string): boolean {
    const rejected = this.#rejected.get(subject);
    const nowMs = this.options.clock.now();
    if (rejected === undefined || Math.abs(nowMs - rejected.checkedAtMs) < RECHECK_MS) {
      return false;
    }
    rejected.checkedAtMs = nowMs;
    return true;
  }
}

function stateOf([nowMs, , minuteUsed, dayUsed, bannedUntilMs]: ConsumeReply): SubjectState {
  return {
    ...UNUSED,
    minuteEndSeconds: windowEndSeconds(nowMs, MINUTE_MS),
    minuteUsed,
    dayEndSeconds: windowEndSeconds(nowMs, DAY_MS),
    dayUsed,
    bannedUntilMs,
  };
}
