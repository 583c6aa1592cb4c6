import { errorOf, listOrders } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { parseLimitHeaders } from '../helpers/limit-headers.js';
import { startTestService, type TestService } from '../helpers/test-service.js';

describe('outside the version segment', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startTestService();
  });
  afterAll(() => service.stop());

  it.each(['/health/live', '/health/ready', '/docs', '/docs/openapi.json'])(
    '%s needs no key, has no rate-limit headers and consumes no quota',
    async (path) => {
      service.clock.advance(60_000);
      // More requests than an address may send to the API, in sequence, because a readiness check uses the database.
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

  it('a request with a key consumes none of its quota', async () => {
    const { key } = await insertKey(service.db, { plan: 'free' });
    for (const path of ['/health/live', '/docs/openapi.json', '/nowhere']) {
      await fetch(`${service.baseUrl}${path}`, { headers: { Authorization: `Bearer ${key}` } });
    }
    const response = await listOrders(service.baseUrl, key);
    expect(parseLimitHeaders(response.headers, service.clock.now()).remaining).toBe(59);
  });

  it('health checks respond to a banned address', async () => {
    service.clock.advance(60_000);
    let response = await listOrders(service.baseUrl);
    for (let number = 0; number < 70; number++) {
      response = await listOrders(service.baseUrl);
    }
    expect((await errorOf(response)).code).toBe('address_banned');
    expect((await fetch(`${service.baseUrl}/health/live`)).status).toBe(200);
    expect((await fetch(`${service.baseUrl}/health/ready`)).status).toBe(200);
  });
});
