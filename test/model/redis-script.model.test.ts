import fc from 'fast-check';
import type { Redis } from 'ioredis';
import { type BanRule, DAY_MS, decide, type Counts, UNUSED, windowEndSeconds } from '../../src/rate-limit/decision.js';
import { consumeArguments, CONSUME_SCRIPT } from '../../src/rate-limit/redis-script.js';
import { describeWithRedis, RedisServer } from '../helpers/redis-server.js';

/** The script with the time as an argument instead of the clock of Redis. */
const CONSUME_SCRIPT_AT = CONSUME_SCRIPT.replace("redis.call('TIME')", '{ARGV[6], ARGV[7]}');

/** Half a second before a UTC midnight, which is also a minute boundary. */
const BEFORE_MIDNIGHT_MS = Date.UTC(2099, 10, 22) - 500;

const quotas = fc.record({
  requestsPerMinute: fc.integer({ min: 1, max: 4 }),
  requestsPerDay: fc.integer({ min: 1, max: 8 }),
});
const rules: fc.Arbitrary<BanRule> = fc.record({
  threshold: fc.integer({ min: 0, max: 4 }),
  windowSeconds: fc.constantFrom(1, 60, 100_000),
  durationSeconds: fc.constantFrom(1, 60, 100_000),
});
/** Milliseconds between requests: mostly within one window, sometimes around a boundary of a window or a ban. */
const steps = fc.array(
  fc.oneof(
    { weight: 8, arbitrary: fc.constant(0) },
    { weight: 4, arbitrary: fc.constantFrom(1, 499, 500, 501, 999, 1_000, 59_999, 60_000, 60_001) },
    { weight: 1, arbitrary: fc.constantFrom(86_399_999, 86_400_000, 99_999_999, 100_000_000) },
  ),
  { minLength: 1, maxLength: 40 },
);

describeWithRedis('CONSUME_SCRIPT', () => {
  let server: RedisServer;
  let redis: Redis;
  let subjects = 0;
  beforeAll(async () => {
    server = await RedisServer.start();
    redis = server.connect();
  });
  afterAll(async () => {
    redis.disconnect();
    await server.stop();
  });

  it('returns the decision of decide() for random requests, and expires when nothing counts any more', async () => {
    expect(CONSUME_SCRIPT_AT).not.toBe(CONSUME_SCRIPT);
    await fc.assert(
      fc.asyncProperty(quotas, quotas, rules, steps, async (first, second, rule, requests) => {
        const key = `subject-${subjects++}`;
        let state: Counts = UNUSED;
        let nowMs = BEFORE_MIDNIGHT_MS;
        for (const [index, afterMs] of requests.entries()) {
          nowMs += afterMs;
          // Sometimes the plan changes.
          const quota = index % 20 < 10 ? first : second;
          const time = [Math.floor(nowMs / 1_000), (nowMs % 1_000) * 1_000];
          const reply: unknown = await redis.eval(CONSUME_SCRIPT_AT, 1, key, ...consumeArguments(quota, rule), ...time);
          const { verdict, next } = decide(state, quota, rule, nowMs);
          expect(reply).toEqual([
            nowMs,
            verdict.outcome === 'admitted' ? 1 : 0,
            next.minuteUsed,
            next.dayUsed,
            next.bannedUntilMs,
            next.bannedUntilMs > state.bannedUntilMs ? 1 : 0,
          ]);
          const ends = [windowEndSeconds(nowMs, DAY_MS) * 1_000, next.bannedUntilMs];
          if (next.rejections > 0) {
            ends.push(next.banWindowStartMs + rule.windowSeconds * 1_000);
          }
          expect(await redis.call('PEXPIRETIME', key)).toBeGreaterThanOrEqual(
            verdict.outcome === 'banned' && next.dayUsed === 0 ? next.bannedUntilMs : Math.max(...ends),
          );
          state = next;
        }
      }),
      { numRuns: 150 },
    );
  });
});
