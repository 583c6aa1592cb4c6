import { call, cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { generateKey } from '../../src/api-keys/api-keys.admin.js';
import { insertKey } from '../helpers/builders.js';
import { parseLimitHeaders, type LimitState } from '../helpers/limit-headers.js';
import { useTestService } from '../helpers/test-service.js';

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
