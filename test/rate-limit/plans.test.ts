import type { Plan } from '../../src/plans/plans.js';
import { call, cancelOrder, errorOf } from '../helpers/api.js';
import { insertKey, insertOrder, insertOrders } from '../helpers/builders.js';
import { parseLimitHeaders } from '../helpers/limit-headers.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { exchange, requestText } from '../helpers/wire.js';

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

/** Sends requests on one connection, which costs a fraction of as many connections, and counts their statuses. */
async function statusesOf(count: number, key: string): Promise<Record<number, number>> {
  const [text, last] = [[], ['Connection: close']].map((headers) =>
    requestText('DELETE', `/v1/store/orders/${ABSENT}`, { key, headers }),
  );
  const { responses } = await exchange(service.port, text!.repeat(count - 1) + last!, { until: 'closed' });
  const counts: Record<number, number> = {};
  for (const { status } of responses) {
    counts[status] = (counts[status] ?? 0) + 1;
  }
  return counts;
}

describe('a key', () => {
  test.each<[Plan, number, number]>([
    ['free', 60, 1_000],
    ['pro', 300, 10_000],
    ['business', 1_000, 100_000],
    ['enterprise', 17, 2_147_483_647],
  ])(
    'on the plan %s is admitted %i times in a minute and %i times a day, then rejected, then admitted in the next minute',
    async (plan, perMinute, perDay) => {
      const own = plan === 'enterprise' ? { requests_per_minute: perMinute, requests_per_day: perDay } : {};
      const { key } = await insertKey(service.db, { plan, ...own });
      expect(await statusesOf(perMinute, key)).toEqual({ 404: perMinute });
      expect(await statusesOf(3, key)).toEqual({ 429: 3 });
      const rejected = await request(key);
      expect(stateOf(rejected)).toMatchObject({
        limit: perMinute,
        remaining: 0,
        day: { quota: perDay, remaining: perDay - perMinute, resetsInSeconds: 43_170 },
        retryAfter: 30,
      });
      expect((await errorOf(rejected)).code).toBe('rate_limit_exceeded');
      service.clock.advance(29_999);
      expect((await request(key)).status).toBe(429);
      service.clock.advance(1);
      const admitted = await request(key);
      expect(admitted.status).toBe(404);
      // Rejected requests consumed nothing.
      expect(stateOf(admitted)).toMatchObject({
        minute: { quota: perMinute, remaining: perMinute - 1, resetsInSeconds: 60 },
        day: { remaining: perDay - perMinute - 1 },
        retryAfter: undefined,
      });
    },
  );

  it('on the Free plan is admitted exactly 60 times of 150 concurrent requests', async () => {
    const { key } = await insertKey(service.db, { plan: 'free' });
    const responses = await Promise.all(Array.from({ length: 150 }, () => request(key)));
    const admitted = responses.filter(({ status }) => status === 404);
    const rejected = responses.filter(({ status }) => status === 429);
    expect([admitted.length, rejected.length]).toEqual([60, 90]);
    // Each admitted request got a different number, from 59 to 0.
    const remaining = admitted.map((response) => stateOf(response).remaining).sort((one, other) => other - one);
    expect(remaining).toEqual(Array.from({ length: 60 }, (_, index) => 59 - index));
    expect(new Set(rejected.map((response) => stateOf(response).retryAfter))).toEqual(new Set([30]));
  });

  it('consumes quota whatever the status of the response', async () => {
    const { key } = await insertKey(service.db, { plan: 'free' });
    const url = service.baseUrl;
    const [broken, full] = await insertOrders(service.db, 2);
    await service.db.query(`
      CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'of the test' USING ERRCODE = CASE OLD.id WHEN ${broken} THEN 'XX000' ELSE '53100' END; END $$;
      CREATE TRIGGER fail BEFORE UPDATE ON orders FOR EACH ROW WHEN (OLD.id IN (${broken}, ${full})) EXECUTE FUNCTION fail()`);
    const responses = [
      await call(url, 'DELETE', `/store/orders/${broken}`, key),
      await call(url, 'DELETE', `/store/orders/${full}`, key),
      await call(url, 'DELETE', `/store/orders/${ABSENT}`, key),
      await call(url, 'DELETE', `/store/orders/${await insertOrder(service.db)}`, key),
      await call(url, 'DELETE', '/store/orders/x', key),
      await call(url, 'GET', '/store/orders', key),
      await call(url, 'GET', '/store/orders', key, { 'If-None-Match': '*' }),
      await call(url, 'HEAD', '/store/orders', key),
      await call(url, 'PUT', '/store/orders', key),
      await call(url, 'GET', '/nowhere', key),
    ];
    expect(responses.map(({ status }) => status)).toEqual([500, 503, 404, 204, 400, 200, 304, 200, 405, 404]);
    expect(responses.map((response) => stateOf(response).remaining)).toEqual([59, 58, 57, 56, 55, 54, 53, 52, 51, 50]);
    expect(stateOf(responses[1]!).retryAfter).toBe(1);
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
