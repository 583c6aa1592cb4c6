import { DomainError } from '../../src/errors/domain-error.js';
import { OrdersService } from '../../src/orders/orders.service.js';
import { call, cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { parseLimitHeaders } from '../helpers/limit-headers.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';
import { startTestService, type TestService } from '../helpers/test-service.js';

const MINUTE_MS = 60_000;

describe('every response', () => {
  let service: TestService;
  let url: string;
  /** An unused Free key for each test: 60 requests per minute and 1,000 per day. */
  let key: string;

  beforeAll(async () => {
    service = await startTestService();
    url = service.baseUrl;
  });
  afterAll(() => service.stop());
  beforeEach(async () => {
    // A new minute, because all requests without a key come from one address.
    service.clock.advance(MINUTE_MS);
    ({ key } = await insertKey(service.db, { plan: 'free' }));
  });
  afterEach(() => {
    jest.restoreAllMocks();
  });

  const stateOf = (response: Response): ReturnType<typeof parseLimitHeaders> =>
    parseLimitHeaders(response.headers, service.clock.now());

  /** The limits after the first request of a minute. */
  const FIRST_OF_60 = {
    limit: 60,
    remaining: 59,
    minute: { quota: 60, remaining: 59, resetsInSeconds: 30 },
    day: { quota: 1_000 },
  };

  test.each<[string, number, () => Promise<Response>]>([
    ['the list', 200, () => listOrders(url, key)],
    ['the head of the list', 200, () => call(url, 'HEAD', '/store/orders', key)],
    ['the unchanged list', 304, () => listOrders(url, key, { 'If-None-Match': '*' })],
    ['a cancelled order', 204, async () => cancelOrder(url, await insertOrder(service.db), key)],
  ])('a success consumes quota and has the rate-limit headers: %s, %i', async (_what, status, request) => {
    const response = await request();
    expect(response.status).toBe(status);
    expect(stateOf(response)).toMatchObject({ ...FIRST_OF_60, day: { remaining: 999 }, retryAfter: undefined });
    await response.body?.cancel();
  });

  test.each<[string, number, string, () => Promise<Response>]>([
    ['a request without a key', 401, 'missing_api_key', () => listOrders(url)],
    ['an invalid key', 401, 'invalid_api_key', () => listOrders(url, 'abc')],
    [
      'an unexpected error',
      500,
      'internal_error',
      () => {
        jest.spyOn(service.app.get(OrdersService), 'cancel').mockRejectedValue(new TypeError('x is not a function'));
        return cancelOrder(url, '1', key);
      },
    ],
    [
      'an unavailable dependency',
      503,
      'service_unavailable',
      () => {
        const unavailable = new DomainError('service_unavailable', 'Retry shortly.');
        jest.spyOn(service.app.get(OrdersService), 'cancel').mockRejectedValue(unavailable);
        return cancelOrder(url, '1', key);
      },
    ],
  ])('an error consumes quota and has the rate-limit headers: %s, %i %s', async (_what, status, code, request) => {
    const response = await request();
    expect(response.status).toBe(status);
    expect(stateOf(response)).toMatchObject(FIRST_OF_60);
    expect((await errorOf(response)).code).toBe(code);
    expect(response.headers.get('retry-after')).toBe(status === 503 ? '1' : null);
  });
});

describe('while the database is unavailable', () => {
  let database: TestDatabase;
  let service: TestService;

  beforeAll(async () => {
    database = await createTestDatabase();
    const unreachable = new URL(database.url);
    unreachable.port = '1';
    service = await startTestService({ database: { ...database, url: unreachable.href } });
  });
  afterAll(async () => {
    await service.stop();
    await database.drop();
  });

  it('returns 503 with the headers of an unused caller for a key that cannot be verified', async () => {
    const { key } = await insertKey(database.db);
    for (const response of [await listOrders(service.baseUrl, key), await cancelOrder(service.baseUrl, '1', key)]) {
      expect(response.status).toBe(503);
      expect(parseLimitHeaders(response.headers, service.clock.now())).toMatchObject({
        limit: 60,
        remaining: 60,
        day: { quota: 1_000, remaining: 1_000 },
        retryAfter: 1,
      });
      expect((await errorOf(response)).code).toBe('service_unavailable');
    }
  });

  it('returns 401 for a request without a key', async () => {
    const response = await listOrders(service.baseUrl);
    expect(response.status).toBe(401);
    expect(parseLimitHeaders(response.headers, service.clock.now())).toMatchObject({ limit: 60, remaining: 59 });
  });
});
