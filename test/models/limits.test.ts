import fc from 'fast-check';
import type { Redis } from 'ioredis';
import type { Quotas } from '../../src/plans/plans.js';
import { type BanRule, decide, type Counts, UNUSED } from '../../src/rate-limit/decision.js';
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
  windowSeconds: fc.constantFrom(1, 3, 60, 100_000),
  durationSeconds: fc.constantFrom(1, 60, 100_000),
});
/** What random requests seldom meet: clocks that are set back (a window anew, a ban that is cut, a grace that is ahead), a ban over days. */
const rareCases = (
  [
    [[500, -60_000, 0], 60],
    [[500, 0, 2_000, -1_000, 0], 60],
    [[0, 0, 500, 0, -499, 0, 1_999, 1, 0], 60],
    [[500, 0, 2_000], 100_000],
  ] as const
).map(([requests, durationSeconds]): [Quotas, Quotas, BanRule, number[]] => {
  const quota = { requestsPerMinute: 1, requestsPerDay: 8 };
  return [quota, quota, { threshold: 2, windowSeconds: 60, durationSeconds }, [...requests]];
});
/** Milliseconds between requests: mostly within one window, sometimes around a boundary of a window or a ban, sometimes back. */
const steps = fc.array(
  fc.oneof(
    { weight: 8, arbitrary: fc.constant(0) },
    {
      weight: 4,
      arbitrary: fc.constantFrom(1, 499, 500, 501, 999, 1_000, 1_500, 1_999, 2_000, 59_999, 60_000, 60_001),
    },
    { weight: 1, arbitrary: fc.constantFrom(86_399_999, 86_400_000, 99_999_999, 100_000_000) },
    { weight: 1, arbitrary: fc.constantFrom(-1, -500, -1_000, -59_999, -60_000, -60_001, -86_400_000, -100_000_000) },
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

  const consume = (key: string, quota: Quotas, rule: BanRule, nowMs: number): Promise<unknown> => {
    const time = [Math.floor(nowMs / 1_000), (nowMs % 1_000) * 1_000];
    return redis.eval(CONSUME_SCRIPT_AT, 1, key, ...consumeArguments(quota, rule), ...time);
  };

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
          const reply = await consume(key, quota, rule, nowMs);
          const { verdict, next } = decide(state, quota, rule, nowMs);
          const { minute, day, banWindowStartMs, graceStartMs, rejections, bannedUntilMs } = next;
          const windows = [minute.used, minute.endSeconds, day.used, day.endSeconds];
          expect(reply).toEqual([
            nowMs,
            verdict.outcome === 'admitted' ? 1 : 0,
            ...windows,
            bannedUntilMs,
            bannedUntilMs > state.bannedUntilMs ? 1 : 0,
          ]);
          const stored = await redis.hmget(key, 'mu', 'me', 'du', 'de', 'rs', 'rc', 'bu', 'gs');
          expect(stored.map(Number)).toEqual([...windows, banWindowStartMs, rejections, bannedUntilMs, graceStartMs]);
          const ends = [day.endSeconds * 1_000, bannedUntilMs, banWindowStartMs + rule.windowSeconds * 1_000];
          expect(await redis.call('PEXPIRETIME', key)).toBe(Math.max(...ends));
          state = next;
        }
      }),
      { numRuns: Number(process.env.RUNS ?? 150), examples: rareCases },
    );
  });
});
