import { generateKey } from '../../src/api-keys/api-keys.admin.js';
import type { Plan } from '../../src/plans/plans.js';
import { call, cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { type LimitState, parseLimitHeaders } from '../helpers/limit-headers.js';
import { startTestService, useTestService } from '../helpers/test-service.js';
import { exchange, requestText } from '../helpers/wire.js';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
/** An order that does not exist: the cheapest request that reaches the database. */
const ABSENT = '404404';

// Bans are off, so that every rejection is one of a window.
const context = useTestService({ environment: { RATE_LIMIT_BAN_THRESHOLD: '0' } });

// Each test has a day of its own.
let noon = Date.parse('2026-11-21T12:00:00Z');
beforeEach(() => {
  noon += DAY_MS;
  context.service.clock.set(noon + 30_000);
});

const request = (key?: string): Promise<Response> => cancelOrder(context.service.baseUrl, ABSENT, key);
const stateOf = (response: Response): LimitState => parseLimitHeaders(response.headers, context.service.clock.now());

/** Sends requests on one connection, which costs a fraction of as many connections, and counts their statuses. */
async function statusesOf(count: number, key: string): Promise<Record<number, number>> {
  const [text, last] = [[], ['Connection: close']].map((headers) =>
    requestText('DELETE', `/v1/store/orders/${ABSENT}`, { key, headers }),
  );
  const { responses } = await exchange(context.service.port, text!.repeat(count - 1) + last!, { until: 'closed' });
  const counts: Record<number, number> = {};
  for (const { status } of responses) {
    counts[status] = (counts[status] ?? 0) + 1;
  }
  return counts;
}

describe('a key', () => {
  it.each<[Plan, number, number]>([
    // The table of section 8 of the interface.
    ['free', 60, 1_000],
    ['pro', 300, 10_000],
    ['business', 1_000, 100_000],
    ['enterprise', 17, 2_147_483_647],
  ])(
    'on the plan %s is admitted %i times in a minute and %i times a day, then rejected, then admitted in the next minute',
    async (plan, perMinute, perDay) => {
      const { clock, db } = context.service;
      const own = plan === 'enterprise' ? { requests_per_minute: perMinute, requests_per_day: perDay } : {};
      const { key } = await insertKey(db, { plan, ...own });
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
      clock.advance(29_999);
      expect((await request(key)).status).toBe(429);
      clock.advance(1);
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
    const { key } = await insertKey(context.service.db, { plan: 'free' });
    const responses = await Promise.all(Array.from({ length: 150 }, () => request(key)));
    const admitted = responses.filter(({ status }) => status === 404);
    const rejected = responses.filter(({ status }) => status === 429);
    expect([admitted.length, rejected.length]).toEqual([60, 90]);
    // Each admitted request got a different number, from 59 to 0.
    const remaining = admitted.map((response) => stateOf(response).remaining).sort((one, other) => other - one);
    expect(remaining).toEqual(Array.from({ length: 60 }, (_, index) => 59 - index));
    expect(new Set(rejected.map((response) => stateOf(response).retryAfter))).toEqual(new Set([30]));
  });

  it('on the Free plan is rejected after 1,000 requests although the minute has requests remaining, until midnight UTC', async () => {
    const { clock, db } = context.service;
    const { key } = await insertKey(db, { plan: 'free' });
    // 16 minutes of 60 are 960, so 40 remain for the seventeenth.
    for (let minute = 0; minute < 16; minute++) {
      expect(await statusesOf(60, key)).toEqual({ 404: 60 });
      clock.advance(MINUTE_MS);
    }
    expect(await statusesOf(39, key)).toEqual({ 404: 39 });
    const last = await request(key);
    expect(last.status).toBe(404);
    // 20 remain in the minute and none in the day: the day is shown.
    expect(stateOf(last)).toMatchObject({ limit: 1_000, remaining: 0, minute: { remaining: 20 } });
    const rejected = await request(key);
    expect(rejected.status).toBe(429);
    // 12:16:30 to midnight is 11 h 43 min 30 s, 42,210 s.
    const day = { limit: 1_000, remaining: 0, day: { remaining: 0 }, retryAfter: 42_210 };
    expect(stateOf(rejected)).toMatchObject({ ...day, minute: { remaining: 20 } });
    clock.set(noon + DAY_MS / 2 - 1);
    expect((await request(key)).status).toBe(429);
    clock.advance(1);
    const admitted = await request(key);
    expect(admitted.status).toBe(404);
    expect(stateOf(admitted)).toMatchObject({ limit: 60, remaining: 59, day: { remaining: 999 } });
  });

  it('consumes quota whatever the status of the response', async () => {
    const { baseUrl, db } = context.service;
    const { key } = await insertKey(db, { plan: 'free' });
    const responses = [
      await cancelOrder(baseUrl, ABSENT, key),
      await cancelOrder(baseUrl, await insertOrder(db), key),
      await cancelOrder(baseUrl, 'x', key),
      await listOrders(baseUrl, key),
      await listOrders(baseUrl, key, { 'If-None-Match': '*' }),
      await call(baseUrl, 'HEAD', '/store/orders', key),
      await call(baseUrl, 'PUT', '/store/orders', key),
      await call(baseUrl, 'GET', '/nowhere', key),
    ];
    expect(responses.map(({ status }) => status)).toEqual([404, 204, 400, 200, 304, 200, 405, 404]);
    expect(responses.map((response) => stateOf(response).remaining)).toEqual([59, 58, 57, 56, 55, 54, 53, 52]);
  });
});

describe('requests without a valid key', () => {
  it('count against their address, whatever makes the key invalid', async () => {
    const { baseUrl, db } = context.service;
    const revoked = await insertKey(db, { revoked_at: new Date('2026-01-01T00:00:00Z') });
    const responses = [
      await listOrders(baseUrl),
      await listOrders(baseUrl, 'not-a-key'),
      await listOrders(baseUrl, generateKey()),
      await listOrders(baseUrl, revoked.key),
      await cancelOrder(baseUrl, 'x'),
      await call(baseUrl, 'PATCH', '/nowhere'),
    ];
    expect(responses.map(({ status }) => status)).toEqual(Array(6).fill(401));
    expect(responses.map((response) => stateOf(response).remaining)).toEqual([59, 58, 57, 56, 55, 54]);
    expect(new Set(responses.map((response) => stateOf(response).day.quota))).toEqual(new Set([1_000]));
  });

  it('and those with a valid key from the same address are counted separately', async () => {
    const { baseUrl, db } = context.service;
    const { key } = await insertKey(db, { requests_per_minute: 2, requests_per_day: 10 });
    expect(stateOf(await request(key))).toMatchObject({ remaining: 1 });
    for (let number = 0; number < 60; number++) {
      expect((await request()).status).toBe(401);
    }
    const rejected = await listOrders(baseUrl, 'not-a-key');
    expect(stateOf(rejected)).toMatchObject({ limit: 60, remaining: 0, retryAfter: 30 });
    expect((await errorOf(rejected)).code).toBe('rate_limit_exceeded');
    expect(rejected.headers.has('www-authenticate')).toBe(false);
    expect((await request(key)).status).toBe(404);
    expect((await request(key)).status).toBe(429);
    context.service.clock.advance(MINUTE_MS);
    // The rejection of the key is none of the address.
    expect(stateOf(await request())).toMatchObject({ limit: 60, remaining: 59 });
  });

  it('do not include those for a public path, which have no rate-limit headers', async () => {
    const { baseUrl } = context.service;
    for (const path of ['/health/live', '/docs/openapi.json', '/nowhere']) {
      const response = await fetch(`${baseUrl}${path}`);
      expect([...response.headers.keys()].filter((name) => name.includes('ratelimit'))).toEqual([]);
      await response.body?.cancel();
    }
    expect(stateOf(await request()).remaining).toBe(59);
  });
});

// The unit test of `clientNetworkOf` covers the other forms of the header.
describe('the address of a request', () => {
  it.each<[string, string, string[], number[]]>([
    ['is that of the connection without TRUST_PROXY', '', ['203.0.113.1', '203.0.113.2'], [1, 2]],
    [
      'is the one that the proxy saw, whatever the client forges',
      '1',
      ['203.0.113.1', '203.0.113.2', '198.51.100.1, 203.0.113.1'],
      [1, 1, 2],
    ],
  ])('%s', async (_what, trustProxy, requests, expected) => {
    const service = await startTestService({ database: context.service, environment: { TRUST_PROXY: trustProxy } });
    const used: number[] = [];
    for (const forwardedFor of requests) {
      const response = await listOrders(service.baseUrl, undefined, { 'X-Forwarded-For': forwardedFor });
      used.push(60 - Number(response.headers.get('x-ratelimit-remaining')));
    }
    await service.stop();
    expect(used).toEqual(expected);
  });
});
