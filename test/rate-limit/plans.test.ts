import type { Plan } from '../../src/plans/plans.js';
import { call, cancelOrder, errorOf } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { parseLimitHeaders } from '../helpers/limit-headers.js';
import { startTestService, type TestService } from '../helpers/test-service.js';

const MINUTE_MS = 60_000;
/** An order that does not exist: the cheapest request that reaches the database. */
const ABSENT = '404404';

// Bans are off, so that every rejection is one of a window.
let service: TestService;
beforeAll(async () => {
  service = await startTestService({ environment: { RATE_LIMIT_BAN_THRESHOLD: '0' } });
});
afterAll(() => service.stop());
beforeEach(() => {
  service.clock.set(Date.parse('2026-11-21T12:00:30.000Z'));
});

const request = (key?: string): Promise<Response> => cancelOrder(service.baseUrl, ABSENT, key);
const stateOf = (response: Response): ReturnType<typeof parseLimitHeaders> =>
  parseLimitHeaders(response.headers, service.clock.now());

/** Sends requests in batches and counts their statuses. */
async function statusesOf(count: number, key?: string): Promise<Record<number, number>> {
  const counts: Record<number, number> = {};
  for (let made = 0; made < count; made += 50) {
    const batch = Array.from({ length: Math.min(50, count - made) }, () => request(key));
    for (const { status } of await Promise.all(batch)) {
      counts[status] = (counts[status] ?? 0) + 1;
    }
  }
  return counts;
}

describe('a key', () => {
  test.each<[Plan, number, number, number | null, number | null]>([
    // plan, quotas per minute and day, custom quotas of the key
    ['free', 60, 1_000, null, null],
    ['pro', 300, 10_000, null, null],
    ['business', 1_000, 100_000, null, null],
    ['enterprise', 5_000, 1_000_000, 5_000, 1_000_000],
    ['enterprise', 2_147_483_647, 2_147_483_647, 2_147_483_647, 2_147_483_647],
  ])(
    'on the plan %s has %i requests per minute and %i per day',
    async (plan, perMinute, perDay, minuteQuota, dayQuota) => {
      const { key } = await insertKey(service.db, {
        plan,
        requests_per_minute: minuteQuota,
        requests_per_day: dayQuota,
      });
      const response = await request(key);
      expect(response.status).toBe(404);
      expect(stateOf(response)).toMatchObject({
        // If both have the same number remaining, the longer window is shown.
        limit: perMinute === perDay ? perDay : perMinute,
        remaining: perMinute - 1,
        minute: { quota: perMinute, remaining: perMinute - 1, resetsInSeconds: 30 },
        day: { quota: perDay, remaining: perDay - 1, resetsInSeconds: 43_170 },
      });
    },
  );

  test.each<[Plan, number, number | null]>([
    ['free', 60, null],
    ['pro', 300, null],
    ['business', 1_000, null],
    ['enterprise', 17, 17],
  ])(
    'on the plan %s is admitted %i times in a minute, then rejected, then admitted in the next',
    async (plan, quota, own) => {
      const { key } = await insertKey(service.db, {
        plan,
        requests_per_minute: own,
        requests_per_day: own === null ? null : 1_000,
      });
      expect(await statusesOf(quota, key)).toEqual({ 404: quota });
      expect(await statusesOf(3, key)).toEqual({ 429: 3 });
      const rejected = await request(key);
      expect(stateOf(rejected)).toMatchObject({ limit: quota, remaining: 0, retryAfter: 30 });
      expect((await errorOf(rejected)).code).toBe('rate_limit_exceeded');
      service.clock.advance(29_999);
      expect((await request(key)).status).toBe(429);
      service.clock.advance(1);
      const admitted = await request(key);
      expect(admitted.status).toBe(404);
      // Rejected requests consumed nothing.
      expect(stateOf(admitted)).toMatchObject({ remaining: quota - 1, minute: { resetsInSeconds: 60 } });
    },
  );

  it('on the Free plan is admitted exactly 60 times of 400 concurrent requests', async () => {
    const { key } = await insertKey(service.db, { plan: 'free' });
    const responses = await Promise.all(Array.from({ length: 400 }, () => request(key)));
    const admitted = responses.filter(({ status }) => status === 404);
    const rejected = responses.filter(({ status }) => status === 429);
    expect([admitted.length, rejected.length]).toEqual([60, 340]);
    // Each admitted request got a different number, from 59 to 0.
    const remaining = admitted.map((response) => stateOf(response).remaining).sort((one, other) => other - one);
    expect(remaining).toEqual(Array.from({ length: 60 }, (_, index) => 59 - index));
    expect(new Set(rejected.map((response) => stateOf(response).retryAfter))).toEqual(new Set([30]));
  });

  it('consumes quota whatever the status of the response', async () => {
    const { key } = await insertKey(service.db, { plan: 'free' });
    const url = service.baseUrl;
    const responses = [
      await call(url, 'GET', '/store/orders', key),
      await call(url, 'HEAD', '/store/orders', key),
      await call(url, 'PUT', '/store/orders', key),
      await call(url, 'GET', '/nowhere', key),
      await call(url, 'DELETE', '/store/orders/x', key),
      await call(url, 'DELETE', `/store/orders/${ABSENT}`, key),
    ];
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 405, 404, 400, 404]);
    expect(responses.map((response) => stateOf(response).remaining)).toEqual([59, 58, 57, 56, 55, 54]);
  });
});

describe('the daily limit of a key', () => {
  it('on the Free plan rejects after 1,000 requests although the minute has requests remaining, until midnight UTC', async () => {
    const { key } = await insertKey(service.db, { plan: 'free' });
    // 16 minutes of 60 are 960, so 40 remain for the seventeenth.
    for (let minute = 0; minute < 16; minute++) {
      expect(await statusesOf(60, key)).toEqual({ 404: 60 });
      service.clock.advance(MINUTE_MS);
    }
    expect(await statusesOf(39, key)).toEqual({ 404: 39 });
    const last = await request(key);
    expect(last.status).toBe(404);
    // 20 remain in the minute and none in the day: the day is shown.
    expect(stateOf(last)).toMatchObject({ limit: 1_000, remaining: 0, minute: { remaining: 20 } });
    const rejected = await request(key);
    expect(rejected.status).toBe(429);
    // 12:16:30 to midnight is 11 h 43 min 30 s, 42,210 s.
    expect(stateOf(rejected)).toMatchObject({
      limit: 1_000,
      remaining: 0,
      minute: { remaining: 20 },
      day: { remaining: 0 },
      retryAfter: 42_210,
    });
    service.clock.set(Date.parse('2026-11-21T23:59:59.999Z'));
    expect((await request(key)).status).toBe(429);
    service.clock.set(Date.parse('2026-11-22T00:00:00.000Z'));
    const admitted = await request(key);
    expect(admitted.status).toBe(404);
    expect(stateOf(admitted)).toMatchObject({ limit: 60, remaining: 59, day: { remaining: 999 } });
  });
});
