import { Logger } from '@nestjs/common';
import { LRUCache } from 'lru-cache';
import { asError } from '../common/as-error.js';
import type { Clock } from '../common/clock.js';
import type { Quotas } from '../plans/plans.js';
import { CoalescedWrites } from './coalesced-writes.js';
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
import { MemoryQuotaStore } from './memory-quota-store.js';
import type { QuotaStore } from './quota-store.js';
import { RedisCircuitBreakers } from './redis-circuit-breakers.js';
import type { ConsumeReply, LimitRedis } from './redis-connection.js';
import { redisKeyOf } from './redis-scripts.js';
import { SubjectCache } from './subject-cache.js';
import type { Verdict } from './verdict.js';

/** How long a cached rejection is used before one request asks Redis again, for bans and unbans by other processes. */
const RECHECK_MS = 1_000;
const UNSAVED_BANS_MAX = 100_000;

/** The cached state of a subject that has been rejected or has used up a window. */
interface CachedSubject {
  readonly state: SubjectState;
  /**
   * The clock of Redis less ours when the command was sent, in milliseconds. An upper bound: a cached window ends at
   * the latest when it ends in Redis, so no reset of the past is reported.
   */
  readonly clockOffsetMs: number;
  /** By how much the offset may be too high. */
  readonly latencyMs: number;
  /** Our clock when Redis was last asked. */
  readonly checkedAtMs: number;
}

export interface RedisQuotaStoreOptions {
  readonly redis: LimitRedis;
  readonly clock: Clock;
  readonly banRule: BanRule;
  /** Called for each ban that this process imposes. */
  readonly onBan: (subject: string) => void;
}

/**
 * Counts in Redis, exactly for any number of processes: one script and one round trip for an admitted request. Counts
 * only grow within a window, so a subject over its limit is rejected from a cache, with at most one round trip a second.
 * Each process counts the rejections that it makes. While Redis is unavailable this process counts in its own memory.
 */
export class RedisQuotaStore implements QuotaStore {
  readonly #logger = new Logger('RateLimit');
  readonly #cache = new SubjectCache<CachedSubject>();
  /** Ends of bans that Redis has not confirmed, in its clock's Unix milliseconds. */
  readonly #unsavedBans = new LRUCache<string, number>({ max: UNSAVED_BANS_MAX });
  readonly #fallback: MemoryQuotaStore;
  readonly #breakers: RedisCircuitBreakers;
  readonly #writes: CoalescedWrites;
  /** The clock of Redis less ours, as of the latest reply. */
  #clockOffsetMs = 0;
  /** How often a ban was lifted. */
  #lifts = 0;

  constructor(private readonly options: RedisQuotaStoreOptions) {
    const { redis, clock, banRule } = options;
    const redisClock: Clock = { now: () => clock.now() + this.#clockOffsetMs };
    this.#fallback = new MemoryQuotaStore(redisClock, banRule, (subject, bannedUntilMs) => {
      const state = { ...UNUSED, bannedUntilMs };
      this.#cache.set(subject, {
        state,
        clockOffsetMs: this.#clockOffsetMs,
        latencyMs: 0,
        checkedAtMs: clock.now(),
      });
      this.#addBan(subject, bannedUntilMs);
    });
    this.#breakers = new RedisCircuitBreakers(redis, () => {
      this.#saveBans();
    });
    this.#writes = new CoalescedWrites(redis);
  }

  /** Whether some requests are counted by this process alone because Redis is unavailable. */
  get degraded(): boolean {
    return this.#breakers.degraded;
  }

  consume(subject: string, quotas: Quotas): Verdict | Promise<Verdict> {
    const cached = this.#cache.get(subject);
    if (cached === undefined) {
      return this.#consumeInRedis(subject, quotas);
    }
    const nowMs = this.options.clock.now();
    if (Math.abs(nowMs - cached.checkedAtMs) >= RECHECK_MS) {
      // Set before Redis has replied, so that of many requests one asks.
      this.#cache.set(subject, { ...cached, checkedAtMs: nowMs });
      const unsavedUntilMs = this.#unsavedBans.get(subject);
      if (unsavedUntilMs === undefined) {
        return this.#consumeInRedis(subject, quotas);
      }
      // A lone failure opens no breaker, so no recovery would save the ban.
      void this.#saveBan(subject, unsavedUntilMs);
    }
    return this.#rejectFromCache(subject, quotas) ?? this.#consumeInRedis(subject, quotas);
  }

  rejects(subject: string, quotas: Quotas): boolean {
    const cached = this.#cache.get(subject);
    return (
      (cached !== undefined && this.#decide(cached, quotas).verdict.outcome !== 'admitted') ||
      this.#fallback.rejects(subject, quotas)
    );
  }

  async liftBan(subject: string): Promise<void> {
    this.#fallback.liftBan(subject);
    this.#unsavedBans.delete(subject);
    try {
      await this.#send(subject, (key) => this.options.redis.hdel(key, 'bu'));
    } catch (error) {
      this.#logger.warn(`could not lift the ban of ${subject} in Redis: ${asError(error).message}`);
    }
    this.#lifts++;
    this.#cache.delete(subject);
  }

  #decide({ state, clockOffsetMs }: CachedSubject, quotas: Quotas): ReturnType<typeof decide> {
    return decide(state, quotas, this.options.banRule, this.options.clock.now() + clockOffsetMs);
  }

  #rejectFromCache(subject: string, quotas: Quotas): Verdict | undefined {
    const cached = this.#cache.get(subject);
    if (cached === undefined) {
      return undefined;
    }
    const { verdict, next } = this.#decide(cached, quotas);
    if (verdict.outcome === 'admitted') {
      return undefined;
    }
    this.#update(subject, cached, next);
    // A lower bound of the time, so that Retry-After is never too short.
    return { ...verdict, decidedAtMs: verdict.decidedAtMs - cached.latencyMs };
  }

  #consumeInRedis(subject: string, quotas: Quotas, mayRepeat = true): Promise<Verdict> {
    const sentAtMs = this.options.clock.now();
    const lifts = this.#lifts;
    return this.#send(subject, (key) =>
      this.options.redis.consume(key, quotas.requestsPerMinute, quotas.requestsPerDay),
    ).then(
      (reply) => {
        const latencyMs = Math.max(0, this.options.clock.now() - sentAtMs);
        const cached = this.#toCached(subject, reply, sentAtMs, latencyMs);
        this.#clockOffsetMs = cached.clockOffsetMs;
        const { verdict, next } = this.#conclude(cached.state, quotas, reply);
        if (verdict.outcome === 'admitted') {
          const isSpent = verdict.minute.remaining === 0 || verdict.day.remaining === 0;
          if (isSpent || this.#cache.get(subject) !== undefined) {
            this.#cache.set(subject, cached);
          }
        } else if (mayRepeat && reply[0] + latencyMs >= resetAtSecondsOf(verdict) * 1_000) {
          // What rejects may have ended while the reply was on its way.
          return this.#consumeInRedis(subject, quotas, false);
        } else if (lifts === this.#lifts) {
          // A reply from before a ban was lifted must not restore the ban.
          this.#update(subject, cached, next);
        }
        return verdict;
      },
      () => this.#rejectFromCache(subject, quotas) ?? this.#fallback.consume(subject, quotas),
    );
  }

  #toCached(subject: string, reply: ConsumeReply, sentAtMs: number, latencyMs: number): CachedSubject {
    const [nowMs, , minuteUsed, dayUsed, bannedUntilMs] = reply;
    return {
      state: {
        minuteEndSeconds: windowEndSeconds(nowMs, MINUTE_MS),
        minuteUsed,
        dayEndSeconds: windowEndSeconds(nowMs, DAY_MS),
        dayUsed,
        rejectedAtMs: this.#cache.get(subject)?.state.rejectedAtMs ?? UNUSED.rejectedAtMs,
        bannedUntilMs: Math.max(bannedUntilMs, this.#unsavedBans.get(subject) ?? 0),
      },
      clockOffsetMs: nowMs - sentAtMs,
      latencyMs,
      checkedAtMs: sentAtMs + latencyMs,
    };
  }

  #conclude(state: SubjectState, quotas: Quotas, [nowMs, counted]: ConsumeReply): ReturnType<typeof decide> {
    return counted === 1
      ? { verdict: verdictOf('admitted', state, quotas, nowMs), next: state }
      : decide(state, quotas, this.options.banRule, nowMs);
  }

  #update(subject: string, cached: CachedSubject, next: SubjectState): void {
    this.#cache.set(subject, { ...cached, state: next });
    if (next.bannedUntilMs > cached.state.bannedUntilMs) {
      this.#addBan(subject, next.bannedUntilMs);
    }
  }

  #addBan(subject: string, bannedUntilMs: number): void {
    this.#unsavedBans.set(subject, bannedUntilMs);
    this.options.onBan(subject);
    void this.#saveBan(subject, bannedUntilMs);
  }

  /** Saves the bans that began while Redis was unavailable. */
  #saveBans(): void {
    const nowMs = this.options.clock.now() + this.#clockOffsetMs;
    for (const [subject, bannedUntilMs] of [...this.#unsavedBans.entries()]) {
      if (bannedUntilMs > nowMs) {
        void this.#saveBan(subject, bannedUntilMs);
      } else {
        this.#unsavedBans.delete(subject);
      }
    }
  }

  async #saveBan(subject: string, bannedUntilMs: number): Promise<void> {
    try {
      const inEffectUntilMs = await this.#send(subject, (key) => this.options.redis.ban(key, bannedUntilMs));
      this.#unsavedBans.delete(subject);
      const cached = this.#cache.get(subject);
      if (cached?.state.bannedUntilMs === bannedUntilMs) {
        this.#cache.set(subject, { ...cached, state: { ...cached.state, bannedUntilMs: inEffectUntilMs } });
      }
    } catch {
      // Saved when Redis is available again.
    }
  }

  /** Sends a command, together with those that other requests send in the same turn of the event loop. */
  #send<T>(subject: string, command: (key: string) => Promise<T>): Promise<T> {
    const key = redisKeyOf(subject);
    return this.#breakers.execute(key, () => {
      this.#writes.batch();
      return command(key);
    });
  }
}
