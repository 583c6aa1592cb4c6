import fc from 'fast-check';
import type { Redis } from 'ioredis';
import { decide, type SubjectState, UNUSED } from '../../src/rate-limit/decision.js';
import { BAN_SCRIPT, CONSUME_SCRIPT } from '../../src/rate-limit/redis-scripts.js';
import { describeWithRedis, RedisServer } from '../helpers/redis-server.js';

/** The scripts with the time as an argument instead of the clock of Redis. */
const CONSUME_SCRIPT_AT = CONSUME_SCRIPT.replace("redis.call('TIME')", '{ARGV[3], ARGV[4]}');
const BAN_SCRIPT_AT = BAN_SCRIPT.replace("redis.call('TIME')", '{ARGV[2], ARGV[3]}');

/** Half a second before a UTC midnight, which is also a minute boundary. */
const BEFORE_MIDNIGHT_MS = Date.UTC(2099, 10, 22) - 500;
const NO_BANS = { threshold: 0, windowSeconds: 60, durationSeconds: 300 };

const quotas = fc.record({
  requestsPerMinute: fc.integer({ min: 1, max: 4 }),
  requestsPerDay: fc.integer({ min: 1, max: 8 }),
});
/** Milliseconds between requests: mostly within one window, sometimes around a window boundary. */
const steps = fc.array(
  fc.record({
    afterMs: fc.oneof(
      { weight: 6, arbitrary: fc.constant(0) },
      { weight: 4, arbitrary: fc.constantFrom(1, 499, 500, 501, 59_999, 60_000, 60_001) },
      { weight: 1, arbitrary: fc.constantFrom(86_399_999, 86_400_000) },
    ),
    banForMs: fc.option(fc.integer({ min: 1, max: 90_000 }), { freq: 12, nil: 0 }),
  }),
  { minLength: 1, maxLength: 40 },
);

describeWithRedis('CONSUME_SCRIPT and BAN_SCRIPT', () => {
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

  it('returns the decision of decide() for random requests around minute and day boundaries', async () => {
    expect(CONSUME_SCRIPT_AT).not.toBe(CONSUME_SCRIPT);
    expect(BAN_SCRIPT_AT).not.toBe(BAN_SCRIPT);
    await fc.assert(
      fc.asyncProperty(quotas, steps, async (quota, requests) => {
        const key = `subject-${subjects++}`;
        let state: SubjectState = UNUSED;
        let nowMs = BEFORE_MIDNIGHT_MS;
        for (const { afterMs, banForMs } of requests) {
          nowMs += afterMs;
          const time = [Math.floor(nowMs / 1_000), (nowMs % 1_000) * 1_000];
          // A ban in effect stands; a later one does not prolong it.
          const bannedUntilMs = banForMs > 0 && state.bannedUntilMs <= nowMs ? nowMs + banForMs : state.bannedUntilMs;
          const banReply =
            banForMs > 0 ? await redis.eval(BAN_SCRIPT_AT, 1, key, nowMs + banForMs, ...time) : bannedUntilMs;
          expect(banReply).toBe(bannedUntilMs);
          state = { ...state, bannedUntilMs };
          const reply = await redis.eval(
            CONSUME_SCRIPT_AT,
            1,
            key,
            quota.requestsPerMinute,
            quota.requestsPerDay,
            ...time,
          );
          const { verdict, next } = decide(state, quota, NO_BANS, nowMs);
          state = next;
          expect(reply).toEqual([
            nowMs,
            verdict.outcome === 'admitted' ? 1 : 0,
            next.minuteUsed,
            next.dayUsed,
            next.bannedUntilMs,
          ]);
        }
      }),
      { numRuns: 150 },
    );
  });
});
