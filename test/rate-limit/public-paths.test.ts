import { listOrders } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { parseLimitHeaders } from '../helpers/limit-headers.js';
import { startTestService, type TestService } from '../helpers/test-service.js';

describe.each([true, false])('outside the version segment (rejectEarly: %s)', (rejectEarly) => {
  let service: TestService;
  beforeAll(async () => {
    service = await startTestService({ rejectEarly });
  });
  afterAll(() => service.stop());

  it.each(['/health/live', '/health/ready', '/docs', '/docs/openapi.json'])(
    '%s needs no key, shows no limits and consumes none, however often it is asked for',
    async (path) => {
      service.clock.advance(60_000);
      // More often than an address may call the API, one after the other: a readiness probe asks the database.
      for (let number = 0; number < 65; number++) {
        const response = await fetch(`${service.baseUrl}${path}`);
        expect(response.status).toBe(200);
        expect([...response.headers.keys()].filter((name) => name.includes('ratelimit'))).toEqual([]);
        await response.body?.cancel();
      }
      const anonymous = await listOrders(service.baseUrl);
      expect(parseLimitHeaders(anonymous.headers, service.clock.now()).remaining).toBe(59);
    },
  );

  it('a key that is sent along all the same is not charged', async () => {
    const { key } = await insertKey(service.db, { plan: 'free' });
    for (const path of ['/health/live', '/docs/openapi.json', '/nowhere']) {
      await fetch(`${service.baseUrl}${path}`, { headers: { Authorization: `Bearer ${key}` } });
    }
    const response = await listOrders(service.baseUrl, key);
    expect(parseLimitHeaders(response.headers, service.clock.now()).remaining).toBe(59);
  });

  it('an address that is banned is still told about health', async () => {
    service.clock.advance(60_000);
    let response = await listOrders(service.baseUrl);
    for (let number = 0; number < 70; number++) {
      response = await listOrders(service.baseUrl);
    }
    expect(response.status).toBe(429);
    expect((await fetch(`${service.baseUrl}/health/live`)).status).toBe(200);
    expect((await fetch(`${service.baseUrl}/health/ready`)).status).toBe(200);
  });
});
