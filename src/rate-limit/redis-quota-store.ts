import { Logger } from '@nestjs/common';
import { BrokenCircuitError, circuitBreaker, ConsecutiveBreaker, handleAll } from 'cockatiel';
import type { Clock } from '../common/clock.js';
import { withDeadline } from '../common/deadline.js';
import { asError } from '../common/as-error.js';
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
import type { Quotas } from '../plans/plans.js';
import type { QuotaStore } from './quota-store.js';
import type { LimitRedis, ConsumeReply } from './redis-connection.js';
import { CoalescedWrites } from './coalesced-writes.js';
import { redisKeyOf } from './redis-scripts.js';
import { SubjectCache } from './subject-cache.js';
import type { Verdict } from './verdict.js';

/** How long a command may take before the request is decided without Redis. Milliseconds. */
const COMMAND_TIMEOUT_MS = 100;
/** Commands in a row that fail before Redis is left alone for a while. */
const BREAKER_FAILURES = 3;
/** How long Redis is left alone before one request tries it again. Milliseconds. */
const BREAKER_OPEN_MS = 1_000;

/** Where the end of a ban stands in a {@link ConsumeReply}. */
const BAN_END = 4;

/** What this process knows of a subject that has been refused or has used up a window. */
interface CachedSubject {
  readonly state: SubjectState;
  /** Redis' clock less ours, in milliseconds, when the state was learned. */
  readonly clockOffsetMs: number;
}

export interface RedisQuotaStoreOptions {
  readonly redis: LimitRedis;
  readonly clock: Clock;
  readonly banRule: BanRule;
  /** Decides while Redis does not: the same figures, for this process alone. */
  readonly fallback: QuotaStore;
  /** Told of each ban that begins here, for the other processes to know. */
  readonly onBan: (subject: string, bannedUntilMs: number) => void;
}

/**
 * Counts in Redis, exactly for any number of processes: one script, one round trip, one decision. Counts only grow
 * within a window, so a subject that is known to be refused stays refused until the window or the ban ends: such
 * requests are refused from memory, and a flood costs no round trip. Refusals are counted by the process that refuses.
 */
export class RedisQuotaStore implements QuotaStore {
  readonly #logger = new Logger('RateLimit');
  readonly #known = new SubjectCache<CachedSubject>();
  readonly #breaker = circuitBreaker(handleAll, {
    halfOpenAfter: BREAKER_OPEN_MS,
    breaker: new ConsecutiveBreaker(BREAKER_FAILURES),
  });
  /** How often a ban was lifted. */
  #lifts = 0;
  /** Whether a command has failed since the last one that succeeded. */
  #troubled = false;
  #degraded = false;

  readonly #writes: CoalescedWrites;

  constructor(private readonly options: RedisQuotaStoreOptions) {
    this.#writes = new CoalescedWrites(options.redis);
    options.redis.on('error', (error: Error) => {
      this.#failed(error);
    });
    options.redis.on('ready', () => {
      // Whether or not there are requests to try it with, once the breaker lets a command through again.
      setTimeout(() => void this.#tryAgain(), BREAKER_OPEN_MS).unref();
    });
  }

  /** Whether requests are counted by this process alone, because Redis does not answer. */
  get degraded(): boolean {
    return this.#degraded;
  }

  consume(subject: string, quotas: Quotas): Verdict | Promise<Verdict> {
    return this.#refuseFromMemory(subject, quotas) ?? this.#ask(subject, quotas);
  }

  async liftBan(subject: string): Promise<void> {
    await this.options.fallback.liftBan(subject);
    try {
      await withDeadline(this.options.redis.hdel(redisKeyOf(subject), 'bu'), COMMAND_TIMEOUT_MS);
    } catch (error) {
      this.#logger.warn(`could not lift the ban of ${subject} in Redis: ${asError(error).message}`);
    }
    this.#lifts++;
    this.#known.delete(subject);
  }

  /** Takes notice of a ban that began in another process. */
  recordBan(subject: string, bannedUntilMs: number): void {
    const known = this.#known.get(subject) ?? { state: UNUSED, clockOffsetMs: 0 };
    this.#known.set(subject, { ...known, state: { ...known.state, bannedUntilMs, refusedAtMs: UNUSED.refusedAtMs } });
  }

  #refuseFromMemory(subject: string, quotas: Quotas): Verdict | undefined {
    const known = this.#known.get(subject);
    if (known === undefined) {
      return undefined;
    }
    const decision = decide(known.state, quotas, this.options.banRule, this.options.clock.now() + known.clockOffsetMs);
    if (decision.verdict.outcome === 'admitted') {
      return undefined;
    }
    this.#remember(subject, known, decision.next);
    return decision.verdict;
  }

  #ask(subject: string, quotas: Quotas): Promise<Verdict> {
    const lifts = this.#lifts;
    const consume = (): Promise<ConsumeReply> =>
      this.#send(() =>
        this.options.redis.consume(redisKeyOf(subject), quotas.requestsPerMinute, quotas.requestsPerDay),
      );
    return this.#guarded(consume).then(
      (reply) => {
        this.#recovered();
        // An answer from before a ban was lifted must not bring the ban back.
        return this.#conclude(
          subject,
          quotas,
          lifts === this.#lifts ? reply : (reply.with(BAN_END, 0) as ConsumeReply),
        );
      },
      (error: unknown) => {
        this.#failed(asError(error));
        return this.options.fallback.consume(subject, quotas);
      },
    );
  }

  #conclude(subject: string, quotas: Quotas, reply: ConsumeReply): Verdict {
    const [nowMs, counted, minuteUsed, dayUsed, bannedUntilInRedisMs] = reply;
    const known = this.#known.get(subject);
    const { refusedAtMs, bannedUntilMs: bannedUntilHereMs } = known?.state ?? UNUSED;
    // A ban that began here a moment ago may not have reached Redis when it answered.
    const bannedUntilMs = Math.max(bannedUntilInRedisMs, bannedUntilHereMs);
    const state: SubjectState = {
      minuteEndSeconds: windowEndSeconds(nowMs, MINUTE_MS),
      minuteUsed,
      dayEndSeconds: windowEndSeconds(nowMs, DAY_MS),
      dayUsed,
      refusedAtMs,
      bannedUntilMs,
    };
    const learned: CachedSubject = { state, clockOffsetMs: nowMs - this.options.clock.now() };
    if (counted === 0) {
      const { verdict, next } = decide(state, quotas, this.options.banRule, nowMs);
      this.#remember(subject, learned, next);
      return verdict;
    }
    const isSpent = minuteUsed >= quotas.requestsPerMinute || dayUsed >= quotas.requestsPerDay;
    if (isSpent || known !== undefined) {
      this.#known.set(subject, learned);
    }
    return verdictOf('admitted', state, quotas, nowMs);
  }

  #remember(subject: string, { state, clockOffsetMs }: CachedSubject, next: SubjectState): void {
    this.#known.set(subject, { state: next, clockOffsetMs });
    if (next.bannedUntilMs > state.bannedUntilMs) {
      withDeadline(this.options.redis.ban(redisKeyOf(subject), next.bannedUntilMs), COMMAND_TIMEOUT_MS).catch(
        (error: unknown) => {
          this.#logger.warn(`a ban stays with this process: ${asError(error).message}`);
        },
      );
      this.options.onBan(subject, next.bannedUntilMs);
    }
  }

  /**
   * Runs a command under the breaker. The breaker is told of a success only when it has something to forget: while all
   * goes well, a request pays nothing for it.
   */
  #guarded<T>(command: () => Promise<T>): Promise<T> {
    if (this.#troubled) {
      return this.#breaker.execute(command).then((result) => {
        this.#troubled = false;
        return result;
      });
    }
    return command().catch((error: unknown) => {
      this.#troubled = true;
      return this.#breaker.execute(() => Promise.reject(asError(error)));
    });
  }

  /** Sends a command, together with those that other requests send in the same turn of the event loop. */
  #send<T>(command: () => Promise<T>): Promise<T> {
    this.#writes.gather();
    return withDeadline(command(), COMMAND_TIMEOUT_MS);
  }

  async #tryAgain(): Promise<void> {
    try {
      await this.#breaker.execute(() => withDeadline(this.options.redis.ping(), COMMAND_TIMEOUT_MS));
      this.#recovered();
    } catch (error) {
      this.#failed(asError(error));
    }
  }

  /** Says once that Redis is away, not once a request. */
  #failed(error: Error): void {
    if (!this.#degraded && !(error instanceof BrokenCircuitError)) {
      this.#degraded = true;
      this.#logger.error(`Redis does not answer (${error.message}); each process counts for itself until it does`);
    }
  }

  #recovered(): void {
    if (this.#degraded) {
      this.#degraded = false;
      this.#logger.warn('Redis answers again; requests are counted together');
    }
  }
}
