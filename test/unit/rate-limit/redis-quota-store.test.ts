import { EventEmitter } from 'node:events';
import type { Quotas } from '../../../src/plans/plans.js';
import { rateLimitHeaders } from '../../../src/rate-limit/headers.js';
import type { LimitRedis } from '../../../src/rate-limit/redis-connection.js';
import type { ConsumeReply } from '../../../src/rate-limit/redis-scripts.js';
import { RedisQuotaStore } from '../../../src/rate-limit/redis-quota-store.js';
import { ManualClock } from '../../helpers/manual-clock.js';

const ONE: Quotas = { requestsPerMinute: 1, requestsPerDay: 1_000 };
const LATENCY_MS = 90;

/** A Redis whose commands arrive at once and whose replies take {@link LATENCY_MS}. */
class SlowRedis extends EventEmitter {
  readonly status = 'ready';
  readonly isCluster = false;
  used = 0;
  bannedUntilMs = 0;

  constructor(private readonly clock: ManualClock) {
    super();
  }

  consume(_key: string, perMinute: number): Promise<ConsumeReply> {
    const nowMs = this.clock.now();
    const counted = this.bannedUntilMs === 0 && this.used < perMinute ? 1 : 0;
    this.used += counted;
    const { used } = this;
    this.clock.advance(LATENCY_MS);
    return Promise.resolve([nowMs, counted, used, used, this.bannedUntilMs, 0]);
  }

  hdel(): Promise<number> {
    return Promise.resolve(1);
  }

  startNextMinute(): void {
    this.used = 0;
  }
}

let clock: ManualClock;
let redis: SlowRedis;
let store: RedisQuotaStore;
beforeEach(() => {
  clock = new ManualClock(Date.UTC(2026, 10, 21, 12, 0, 30));
  redis = new SlowRedis(clock);
  store = new RedisQuotaStore({
    redis: redis as unknown as LimitRedis,
    clock,
    banRule: { threshold: 0, windowSeconds: 60, durationSeconds: 300 },
    onBan: () => undefined,
    onRecovered: () => undefined,
  });
});

describe('RedisQuotaStore with slow replies', () => {
  const endOfMinuteMs = Date.UTC(2026, 10, 21, 12, 1, 0);

  it('asks Redis again from the first millisecond of the next window', async () => {
    await store.consume('key:a', ONE);
    clock.set(endOfMinuteMs - 500);
    expect((await store.consume('key:a', ONE)).outcome).toBe('limited');
    clock.set(endOfMinuteMs);
    redis.startNextMinute();
    expect((await store.consume('key:a', ONE)).outcome).toBe('admitted');
  });

  it('returns no Retry-After before the reset when it rejects from the cache', async () => {
    await store.consume('key:a', ONE);
    await store.consume('key:a', ONE);
    clock.set(endOfMinuteMs - 1_050);
    await store.consume('key:a', ONE);
    clock.set(endOfMinuteMs - 950);
    const headers = new Map(rateLimitHeaders(await store.consume('key:a', ONE)));
    expect(headers.get('X-RateLimit-Reset')).toBe(String(endOfMinuteMs / 1_000));
    expect(Number(headers.get('Retry-After')) * 1_000).toBeGreaterThanOrEqual(950);
  });

  it('asks Redis once more when the window ends before the reply arrives', async () => {
    await store.consume('key:a', ONE);
    clock.set(endOfMinuteMs - 10);
    const verdict = store.consume('key:a', ONE);
    redis.startNextMinute();
    expect((await verdict).outcome).toBe('admitted');
  });
});

describe('RedisQuotaStore', () => {
  it('applies a changed plan to a remembered rejection at once', async () => {
    await store.consume('key:a', ONE);
    expect((await store.consume('key:a', ONE)).outcome).toBe('limited');
    const more = await store.consume('key:a', { ...ONE, requestsPerMinute: 3 });
    expect(more).toMatchObject({ outcome: 'admitted', minute: { limit: 3, remaining: 1 } });
  });

  it('does not restore a ban from a reply that Redis sent before the ban was lifted', async () => {
    redis.bannedUntilMs = clock.now() + 300_000;
    const banned = store.consume('key:a', ONE);
    redis.bannedUntilMs = 0;
    store.liftBan('key:a');
    expect((await banned).outcome).toBe('banned');
    await new Promise(setImmediate);
    expect((await store.consume('key:a', ONE)).outcome).toBe('admitted');
  });

  it('rejects the promise of a request whose reply is not that of the script', async () => {
    redis.consume = () => Promise.resolve(null as unknown as ConsumeReply);
    await expect(store.consume('key:a', ONE)).rejects.toThrow(TypeError);
    expect((await store.consume('address:203.0.113.7', ONE)).outcome).toBe('admitted');
  });
});
