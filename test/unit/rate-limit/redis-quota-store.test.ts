import { EventEmitter } from 'node:events';
import { Logger } from '@nestjs/common';
import { ReplyError } from 'ioredis';
import type { Quotas } from '../../../src/plans/plans.js';
import { type BanRule, DAY_MS, MINUTE_MS, windowEndSeconds } from '../../../src/rate-limit/decision.js';
import { rateLimitHeaders } from '../../../src/rate-limit/headers.js';
import type { LimitRedis } from '../../../src/rate-limit/redis-connection.js';
import { type ConsumeReply, redisKeyOf } from '../../../src/rate-limit/redis-script.js';
import { RedisQuotaStore } from '../../../src/rate-limit/redis-quota-store.js';
import { ManualClock } from '../../helpers/manual-clock.js';
import { replaceMonotonicClock } from '../../helpers/monotonic-clock.js';

const ONE: Quotas = { requestsPerMinute: 1, requestsPerDay: 1_000 };
const LATENCY_MS = 90;

/** A Redis whose commands or replies take {@link LATENCY_MS}, while the others arrive at once. */
class SlowRedis extends EventEmitter {
  readonly status = 'ready';
  slow: 'commands' | 'replies' = 'replies';
  /** Its clock less ours. */
  offsetMs = 0;
  used = 0;
  bannedUntilMs = 0;

  constructor(private readonly clock: ManualClock) {
    super();
  }

  consume(_key: string, perMinute: number): Promise<ConsumeReply> {
    const sentAtMs = this.clock.now();
    this.clock.advance(LATENCY_MS);
    const nowMs = (this.slow === 'replies' ? sentAtMs : this.clock.now()) + this.offsetMs;
    const counted = this.bannedUntilMs === 0 && this.used < perMinute ? 1 : 0;
    this.used += counted;
    const { used } = this;
    const ends = [MINUTE_MS, DAY_MS].map((windowMs) => windowEndSeconds(nowMs, windowMs)) as [number, number];
    return Promise.resolve([nowMs, counted, used, ends[0], used, ends[1], this.bannedUntilMs, 0]);
  }

  hdel(): Promise<number> {
    return Promise.resolve(1);
  }

  startNextMinute(): void {
    this.used = 0;
  }
}

const replyError = (message: string): Error => new (ReplyError as new (text: string) => Error)(message);
const timeout = (): Error => Object.assign(new Error('no response within 100 ms'), { code: 'ETIMEDOUT' });

let clock: ManualClock;
let redis: SlowRedis;
let store: RedisQuotaStore;
let banRule: BanRule;
beforeAll(() => {
  Logger.overrideLogger(false);
});
beforeEach(() => {
  clock = new ManualClock(Date.UTC(2026, 10, 21, 12, 0, 30));
  replaceMonotonicClock(() => clock.now());
  redis = new SlowRedis(clock);
  banRule = { threshold: 0, windowSeconds: 60, durationSeconds: 300 };
  store = storeOn(redis);
});

function storeOn(connection: SlowRedis): RedisQuotaStore {
  return new RedisQuotaStore({
    redis: connection as unknown as LimitRedis,
    clock,
    banRule,
    recoveries: { inc: () => undefined },
  });
}

describe('RedisQuotaStore with slow replies', () => {
  const endOfMinuteMs = Date.UTC(2026, 10, 21, 12, 1, 0);

  it('asks Redis again from the first millisecond of the next window', async () => {
    await store.consume('a', ONE);
    clock.set(endOfMinuteMs - 500);
    expect((await store.consume('a', ONE)).outcome).toBe('limited');
    clock.set(endOfMinuteMs);
    redis.startNextMinute();
    expect((await store.consume('a', ONE)).outcome).toBe('admitted');
  });

  it.each(['commands', 'replies'] as const)(
    'returns no Retry-After before the reset when it rejects from the cache and %s are slow',
    async (slow) => {
      redis.slow = slow;
      await store.consume('a', ONE);
      clock.set(endOfMinuteMs - 1_500);
      await store.consume('a', ONE);
      clock.set(endOfMinuteMs - 1_010);
      const headers = new Map(rateLimitHeaders(await store.consume('a', ONE)));
      expect(headers.get('X-RateLimit-Reset')).toBe(String(endOfMinuteMs / 1_000));
      expect(headers.get('Retry-After')).toBe('2');
    },
  );

  it('asks Redis once more when the window ends before the reply arrives', async () => {
    await store.consume('a', ONE);
    clock.set(endOfMinuteMs - 10);
    Object.assign(banRule, { threshold: 10 });
    const consume = jest.spyOn(redis, 'consume');
    const verdict = store.consume('a', ONE);
    redis.startNextMinute();
    expect((await verdict).outcome).toBe('admitted');
    // The request is not counted towards a ban again.
    expect(consume.mock.calls.map((sent: unknown[]) => sent[3])).toEqual([10, 0]);
  });
});

describe('RedisQuotaStore', () => {
  it('applies a changed plan to a remembered rejection at once', async () => {
    await store.consume('a', ONE);
    expect((await store.consume('a', ONE)).outcome).toBe('limited');
    const more = await store.consume('a', { ...ONE, requestsPerMinute: 3 });
    expect(more).toMatchObject({ outcome: 'admitted', minute: { limit: 3, remaining: 1 } });
  });

  it('does not restore a ban from a reply that Redis sent before the ban was lifted', async () => {
    redis.bannedUntilMs = clock.now() + 300_000;
    const banned = store.consume('a', ONE);
    redis.bannedUntilMs = 0;
    store.liftBan('a');
    expect((await banned).outcome).toBe('banned');
    await new Promise(setImmediate);
    expect((await store.consume('a', ONE)).outcome).toBe('admitted');
  });

  it('admits every request once Redis says that a ban was lifted elsewhere', async () => {
    redis.bannedUntilMs = clock.now() + 300_000;
    await store.consume('a', { ...ONE, requestsPerMinute: 2 });
    redis.bannedUntilMs = 0;
    clock.advance(1_000);
    for (let request = 0; request < 2; request++) {
      expect((await store.consume('a', { ...ONE, requestsPerMinute: 2 })).outcome).toBe('admitted');
    }
  });

  it('asks Redis again about a ban when the clock was set back', async () => {
    redis.bannedUntilMs = clock.now() + 300_000;
    expect((await store.consume('a', ONE)).outcome).toBe('banned');
    redis.bannedUntilMs = 0;
    clock.advance(-600_000);
    expect((await store.consume('a', ONE)).outcome).toBe('admitted');
  });

  it('rejects for no longer than a ban lasts when the clock was set back, and asks Redis about it', async () => {
    redis.bannedUntilMs = clock.now() + 300_000;
    await store.consume('a', ONE);
    clock.advance(-DAY_MS);
    redis.consume = () => Promise.reject(new Error('lost'));
    const cut = await store.consume('a', ONE);
    expect(cut).toMatchObject({ outcome: 'banned', minute: { resetAtSeconds: Math.ceil(clock.now() / 1_000) + 300 } });
    // The end is stored: it does not move with the clock.
    clock.advance(200_000);
    expect((await store.consume('a', ONE)).minute.resetAtSeconds).toBe(cut.minute.resetAtSeconds);
    clock.advance(100_000);
    expect((await store.consume('a', ONE)).outcome).toBe('admitted');
  });

  it('returns Retry-After for the ban when the clock is set between command and reply', async () => {
    redis.bannedUntilMs = clock.now() + 300_000;
    const consume = redis.consume.bind(redis);
    redis.consume = (...args) => {
      const reply = consume(...args);
      // The monotonic clock goes on.
      const elapsedMs = clock.now();
      replaceMonotonicClock(() => elapsedMs);
      clock.advance(DAY_MS);
      return reply;
    };
    await store.consume('a', ONE);
    const headers = new Map(rateLimitHeaders(await store.consume('a', ONE)));
    expect(headers.get('Retry-After')).toBe('300');
  });

  it('decides by the clock of Redis while Redis fails', async () => {
    redis.offsetMs = 3_600_000;
    await store.consume('a', ONE);
    redis.consume = () => Promise.reject(new Error('lost'));
    expect(await store.consume('a', ONE)).toMatchObject({ decidedAtMs: clock.now() + 3_600_000 });
  });

  it('is degraded after three consecutive failures', async () => {
    const consume = redis.consume.bind(redis);
    const lost = (): Promise<never> => Promise.reject(timeout());
    const degraded = [];
    for (const works of [false, false, true, false, false, false]) {
      redis.consume = works ? consume : lost;
      await store.consume('a', { ...ONE, requestsPerMinute: 10 });
      degraded.push(store.degraded);
    }
    expect(degraded).toEqual([false, false, false, false, false, true]);
  });

  it.each([
    ["READONLY You can't write against a read only replica.", true],
    ['LOADING Redis is loading the dataset in memory', true],
    ['CLUSTERDOWN The cluster is down', true],
    ["MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", true],
    ["OOM command not allowed when used memory > 'maxmemory'.", true],
    ['BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.', true],
    ['MISCONF Redis is configured to save RDB snapshots, but is currently not able to persist on disk.', true],
    ['NOREPLICAS Not enough good replicas to write.', true],
    ['NOAUTH Authentication required.', true],
    ["NOPERM this user has no permissions to run the 'evalsha' command", true],
    ['ERR max number of clients reached', true],
    ["ERR The user executing the script can't run this command or subcommand script: 0a1b", true],
    ['ERR Error running script (call to f_0a1b): @user_script:47: -NOREPLICAS Not enough good replicas.', true],
    ['WRONGTYPE Operation against a key holding the wrong kind of value', false],
    ['MOVED 3999 127.0.0.1:6381', false],
  ])('after three errors "%s" is degraded: %s', async (message, isDegraded) => {
    redis.consume = () => Promise.reject(replyError(message));
    for (let request = 0; request < 3; request++) {
      expect((await store.consume('a', { ...ONE, requestsPerMinute: 10 })).outcome).toBe('admitted');
    }
    expect(store.degraded).toBe(isDegraded);
  });

  it('probes Redis once a second while it is degraded, until it counts, and sends it no request meanwhile', async () => {
    jest.useFakeTimers({ doNotFake: ['performance', 'setImmediate', 'clearImmediate'] });
    redis = new SlowRedis(clock);
    store = storeOn(redis);
    const consume = redis.consume.bind(redis);
    // A probe that any error answers has not been counted.
    const errors = [timeout(), timeout(), timeout(), timeout(), replyError('WRONGTYPE')];
    const sent: string[] = [];
    redis.consume = (...args) => {
      sent.push(args[0]);
      const error = errors[sent.length - 1];
      return error === undefined ? consume(...args) : Promise.reject(error);
    };
    const seen = [];
    for (const ms of [0, 999, 1, 999, 1, 999, 1]) {
      await jest.advanceTimersByTimeAsync(ms);
      seen.push({ sent: sent.length, degraded: store.degraded });
      await Promise.all([1, 2, 3].map(async () => store.consume('a', ONE)));
    }
    jest.useRealTimers();
    expect(seen.map((each) => each.sent)).toEqual([0, 3, 4, 4, 5, 5, 6]);
    expect(seen.map((each) => each.degraded)).toEqual([false, true, true, true, true, true, false]);
    const [limited, probe] = [redisKeyOf('a'), redisKeyOf('probe')];
    expect(sent).toEqual([limited, limited, limited, probe, probe, probe, limited, limited, limited]);
  });

  it('is degraded after three lost connections, however many commands each of them had', async () => {
    redis.consume = () => Promise.reject(new Error('lost'));
    const degraded = [];
    for (let connection = 0; connection < 3; connection++) {
      const requests = Promise.all([1, 2, 3].map(async () => store.consume('a', ONE)));
      redis.emit('error', new Error('read ECONNRESET'));
      redis.emit('close');
      await new Promise(setImmediate);
      // They are sent again, and lost again.
      redis.emit('ready');
      await requests;
      degraded.push(store.degraded);
    }
    expect(degraded).toEqual([false, false, true]);
  });

  it('is not degraded after one lost connection, however many commands wait for another one', async () => {
    redis.consume = () => Promise.reject(new Error('lost'));
    const requests = Promise.all([1, 2, 3, 4].map(async () => store.consume('a', { ...ONE, requestsPerMinute: 10 })));
    redis.emit('error', new Error('read ECONNRESET'));
    redis.emit('close');
    expect(new Set((await requests).map(({ outcome }) => outcome))).toEqual(new Set(['admitted']));
    expect(store.degraded).toBe(false);
  });

  it('is not degraded after two lost connections, although each had a probe', async () => {
    jest.useFakeTimers({ doNotFake: ['performance', 'setImmediate', 'clearImmediate'] });
    redis = new SlowRedis(clock);
    store = storeOn(redis);
    const consume = jest.fn(() => Promise.reject(new Error('lost')));
    redis.consume = consume;
    for (let connection = 0; connection < 2; connection++) {
      await jest.advanceTimersByTimeAsync(1_000);
      redis.emit('close');
    }
    jest.useRealTimers();
    expect(consume).toHaveBeenCalledTimes(2);
    expect(store.degraded).toBe(false);
  });

  it('rejects the promise of a request whose reply is not that of the script', async () => {
    redis.consume = () => Promise.resolve(null as unknown as ConsumeReply);
    await expect(store.consume('a', ONE)).rejects.toThrow(TypeError);
  });
});
