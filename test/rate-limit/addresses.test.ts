import { generateKey } from '../../src/api-keys/api-keys.admin.js';
import { call, cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { type LimitState, parseLimitHeaders } from '../helpers/limit-headers.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { type TestService, startTestService, useTestService } from '../helpers/test-service.js';
import { responseTo } from '../helpers/wire.js';

const context = useTestService({ environment: { RATE_LIMIT_BAN_THRESHOLD: '0' } });
let url: string;
beforeAll(() => (url = context.service.baseUrl));

const stateOf = (response: Response): LimitState => parseLimitHeaders(response.headers, context.service.clock.now());

describe('requests without a valid key', () => {
  it('count against their address, whatever makes the key invalid', async () => {
    const [expired, revoked] = [
      await insertKey(context.service.db, { expires_at: new Date('2026-01-01T00:00:00Z') }),
      await insertKey(context.service.db, { revoked_at: new Date('2026-01-01T00:00:00Z') }),
    ];
    const responses = [
      await listOrders(url),
      await listOrders(url, 'not-a-key'),
      await listOrders(url, generateKey()),
      await listOrders(url, expired.key),
      await listOrders(url, revoked.key),
      await call(url, 'GET', '/store/orders', undefined, { Authorization: 'Basic dXNlcjpwYXNz' }),
      await call(url, 'GET', '/store/orders', undefined, { Authorization: 'Bearer a b' }),
      await cancelOrder(url, 'x'),
      await call(url, 'PATCH', '/nowhere'),
    ];
    expect(responses.map(({ status }) => status)).toEqual(Array(9).fill(401));
    expect(responses.map((response) => stateOf(response).remaining)).toEqual([59, 58, 57, 56, 55, 54, 53, 52, 51]);
    expect(new Set(responses.map((response) => stateOf(response).day.quota))).toEqual(new Set([1_000]));
  });

  it('and requests with a valid key from the same address are counted separately', async () => {
    const { key } = await insertKey(context.service.db, { plan: 'free' });
    const untouched = await listOrders(url, key);
    expect(stateOf(untouched)).toMatchObject({ remaining: 59 });
    for (let number = 0; number < 61; number++) {
      await listOrders(url);
    }
    const rejected = await listOrders(url, 'not-a-key');
    expect(stateOf(rejected)).toMatchObject({ limit: 60, remaining: 0, retryAfter: 30 });
    expect((await errorOf(rejected)).code).toBe('rate_limit_exceeded');
    expect(rejected.headers.has('www-authenticate')).toBe(false);
    const response = await listOrders(url, key);
    expect(response.status).toBe(200);
    expect(stateOf(response)).toMatchObject({ remaining: 58 });
  });

  it('do not include rejected requests with a valid key', async () => {
    const { key } = await insertKey(context.service.db, { requests_per_minute: 1, requests_per_day: 10 });
    await listOrders(url, key);
    expect((await listOrders(url, key)).status).toBe(429);
    expect(stateOf(await listOrders(url))).toMatchObject({ limit: 60, remaining: 59 });
  });
});

describe('public paths outside the version segment', () => {
  it.each(['/health/live', '/health/ready', '/docs', '/docs/openapi.json'])(
    '%s needs no key, has no rate-limit headers and consumes no quota',
    async (path) => {
      // More requests than an address may send to the API, in sequence, because a readiness check uses the database.
      for (let number = 0; number < 65; number++) {
        const response = await fetch(`${url}${path}`);
        expect(response.status).toBe(200);
        expect([...response.headers.keys()].filter((name) => name.includes('ratelimit'))).toEqual([]);
        await response.body?.cancel();
      }
      const anonymous = await listOrders(url);
      expect(stateOf(anonymous).remaining).toBe(59);
    },
  );

  it('a request with a key consumes none of its quota', async () => {
    const { key } = await insertKey(context.service.db, { plan: 'free' });
    for (const path of ['/health/live', '/docs/openapi.json', '/nowhere']) {
      await fetch(`${url}${path}`, { headers: { Authorization: `Bearer ${key}` } });
    }
    const response = await listOrders(url, key);
    expect(stateOf(response).remaining).toBe(59);
  });
});

describe('behind proxies', () => {
  const database = useTestDatabase();
  let service: TestService;
  afterEach(() => service.stop());

  /** How many requests have been counted against the address of a request with this header, including this one. */
  async function usedBy(forwardedFor?: string): Promise<number> {
    const headers: Record<string, string> = forwardedFor === undefined ? {} : { 'X-Forwarded-For': forwardedFor };
    const response = await call(service.baseUrl, 'GET', '/store/orders', undefined, headers);
    expect(response.status).toBe(401);
    return 60 - Number(response.headers.get('x-ratelimit-remaining'));
  }

  // The unit test of `clientNetworkOf` covers the other forms of the header.
  test.each<[string, string, (string | undefined)[], number[]]>([
    [
      'without TRUST_PROXY, all requests of a connection count as one client',
      '',
      ['203.0.113.1', '203.0.113.2', '203.0.113.3, 203.0.113.4', undefined],
      [1, 2, 3, 4],
    ],
    [
      'with one proxy, each client counts by the address that the proxy saw, whatever it forges',
      '1',
      ['203.0.113.1', '203.0.113.2', '198.51.100.1, 203.0.113.1', 'nonsense,   203.0.113.1'],
      [1, 1, 2, 3],
    ],
    [
      'with one proxy, the addresses of an IPv6 /64 count as one client',
      '1',
      ['2001:db8:0:1::1', '2001:db8:0:1:ffff::2', '2001:db8:0:2::1', '[2001:db8:0:1::3]:1234'],
      [1, 2, 1, 3],
    ],
    [
      'with trusted networks, the last address outside them counts',
      '127.0.0.0/8, 10.0.0.0/8,fd00::/8',
      ['203.0.113.1', '198.51.100.1, 203.0.113.1, fd00::1, 10.1.2.3', '203.0.113.1, 198.51.100.1, 10.1.2.3'],
      [1, 2, 1],
    ],
  ])('%s', async (_what, trustProxy, requests, expected) => {
    service = await startTestService({ database, environment: { TRUST_PROXY: trustProxy } });
    const used: number[] = [];
    for (const forwardedFor of requests) {
      used.push(await usedBy(forwardedFor));
    }
    expect(used).toEqual(expected);
  });

  it('repeated headers are read as one list', async () => {
    service = await startTestService({ database, environment: { TRUST_PROXY: '1' } });
    await usedBy('203.0.113.1');
    const headers = ['X-Forwarded-For: 198.51.100.1', 'X-Forwarded-For: 203.0.113.1'];
    const response = await responseTo(service.port, 'GET', '/v1/store/orders', { headers });
    expect(response.headers.get('x-ratelimit-remaining')).toEqual(['58']);
  });
});
