import { EventEmitter } from 'node:events';
import type { Quotas } from '../../../src/plans/plans.js';
import { rateLimitHeaders } from '../../../src/rate-limit/headers.js';
import type { ConsumeReply, LimitRedis } from '../../../src/rate-limit/redis-connection.js';
import { FallbackQuotaStore } from '../../../src/rate-limit/fallback-quota-store.js';
import { ManualClock } from '../../helpers/manual-clock.js';

const ONE: Quotas = { requestsPerMinute: 1, requestsPerDay: 1_000 };
const LATENCY_MS = 90;

/** A Redis whose commands arrive at once and whose replies take {@link LATENCY_MS}. */
class SlowRedis extends EventEmitter {
  readonly status = 'ready';
  readonly isCluster = false;
  used = 0;

  constructor(private readonly clock: ManualClock) {
    super();
  }

  consume(_key: string, perMinute: number): Promise<ConsumeReply> {
    const nowMs = this.clock.now();
    const counted = this.used < perMinute ? 1 : 0;
    this.used += counted;
    const { used } = this;
    this.clock.advance(LATENCY_MS);
    return Promise.resolve([nowMs, counted, used, used, 0]);
  }

  startNextMinute(): void {
    this.used = 0;
  }
}

let clock: ManualClock;
let redis: SlowRedis;
let store: FallbackQuotaStore;
beforeEach(() => {
  clock = new ManualClock(Date.UTC(2026, 10, 21, 12, 0, 30));
  redis = new SlowRedis(clock);
  store = new FallbackQuotaStore({
    redis: redis as unknown as LimitRedis,
    clock,
    banRule: { threshold: 0, windowSeconds: 60, durationSeconds: 300 },
    onBan: () => undefined,
    onRecovered: () => undefined,
  });
});

describe('FallbackQuotaStore with slow replies', () => {
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

describe('FallbackQuotaStore when a single command to save a ban fails', () => {
  class FailingBans extends SlowRedis {
    readonly bans: number[] = [];
    failures = 1;

    ban(_key: string, bannedUntilMs: number): Promise<number> {
      this.bans.push(bannedUntilMs);
      return this.failures-- > 0 ? Promise.reject(new Error('no response')) : Promise.resolve(bannedUntilMs);
    }
  }

  it('saves the ban with one of the next requests, for the other replicas', async () => {
    const failing = new FailingBans(clock);
    store = new FallbackQuotaStore({
      redis: failing as unknown as LimitRedis,
      clock,
      banRule: { threshold: 1, windowSeconds: 60, durationSeconds: 300 },
      onBan: () => undefined,
      onRecovered: () => undefined,
    });
    await store.consume('key:a', ONE);
    const { outcome, bannedUntilMs } = await store.consume('key:a', ONE);
    expect(outcome).toBe('banned');
    clock.advance(1_500);
    expect((await store.consume('key:a', ONE)).outcome).toBe('banned');
    expect(failing.bans).toEqual([bannedUntilMs, bannedUntilMs]);
    expect((await store.consume('key:a', ONE)).outcome).toBe('banned');
    expect(failing.bans).toHaveLength(2);
  });
});
