import type { Clock } from '../common/clock.js';
import type { Quotas } from '../plans/plans.js';
import {
  type BanRule,
  DAY_MS,
  decide,
  type Decision,
  MINUTE_MS,
  UNUSED,
  verdictOf,
  windowEndSeconds,
} from './decision.js';
import { resetAtSecondsOf } from './headers.js';
import type { RedisBans } from './redis-bans.js';
import type { RedisCircuitBreakers } from './redis-circuit-breakers.js';
import type { ConsumeReply } from './redis-connection.js';
import type { CachedSubject, RejectionCache } from './rejection-cache.js';
import type { Verdict } from './verdict.js';

/** Counts in Redis, exactly for any number of processes: one script and one round trip for each request. */
export class RedisQuotaStore {
  /** The clock of Redis less ours, as of the latest reply. */
  #clockOffsetMs = 0;
  /** How often a ban was lifted. */
  #lifts = 0;

  constructor(
    private readonly redis: RedisCircuitBreakers,
    private readonly clock: Clock,
    private readonly banRule: BanRule,
    private readonly cache: RejectionCache,
    private readonly bans: RedisBans,
  ) {}

  get clockOffsetMs(): number {
    return this.#clockOffsetMs;
  }

  /** @throws {Error} (by rejection) when Redis is unavailable; then nothing may have been counted */
  async consume(subject: string, quotas: Quotas, mayRepeat = true): Promise<Verdict> {
    const sentAtMs = this.clock.now();
    const lifts = this.#lifts;
    const reply = await this.redis.execute(subject, (redis, key) =>
      redis.consume(key, quotas.requestsPerMinute, quotas.requestsPerDay),
    );
    const latencyMs = Math.max(0, this.clock.now() - sentAtMs);
    const cached = this.#toCached(subject, reply, sentAtMs, latencyMs);
    this.#clockOffsetMs = cached.clockOffsetMs;
    const { verdict, next } = this.#conclude(cached, quotas, reply);
    if (verdict.outcome === 'admitted') {
      const isSpent = verdict.minute.remaining === 0 || verdict.day.remaining === 0;
      if (isSpent || this.cache.get(subject) !== undefined) {
        this.cache.set(subject, cached);
      }
    } else if (mayRepeat && reply[0] + latencyMs >= resetAtSecondsOf(verdict) * 1_000) {
      // What rejects may have ended while the reply was on its way.
      return this.consume(subject, quotas, false);
    } else if (lifts === this.#lifts) {
      // A reply from before a ban was lifted must not restore the ban.
      this.cache.setRejected(subject, cached, next);
    }
    return verdict;
  }

  /** @throws {Error} (by rejection) when Redis is unavailable */
  async liftBan(subject: string): Promise<void> {
    try {
      await this.redis.execute(subject, (redis, key) => redis.hdel(key, 'bu'));
    } finally {
      this.#lifts++;
    }
  }

  #toCached(subject: string, reply: ConsumeReply, sentAtMs: number, latencyMs: number): CachedSubject {
    const [nowMs, , minuteUsed, dayUsed, bannedUntilMs] = reply;
    return {
      state: {
        minuteEndSeconds: windowEndSeconds(nowMs, MINUTE_MS),
        minuteUsed,
        dayEndSeconds: windowEndSeconds(nowMs, DAY_MS),
        dayUsed,
        rejectedAtMs: this.cache.get(subject)?.state.rejectedAtMs ?? UNUSED.rejectedAtMs,
        bannedUntilMs: Math.max(bannedUntilMs, this.bans.unsavedUntilMs(subject) ?? 0),
      },
      clockOffsetMs: nowMs - sentAtMs,
      latencyMs,
      checkedAtMs: sentAtMs + latencyMs,
    };
  }

  #conclude({ state }: CachedSubject, quotas: Quotas, [nowMs, counted]: ConsumeReply): Decision {
    return counted === 1
      ? { verdict: verdictOf('admitted', state, quotas, nowMs), next: state }
      : decide(state, quotas, this.banRule, nowMs);
  }
}
