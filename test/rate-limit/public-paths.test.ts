import { listOrders } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { parseLimitHeaders } from '../helpers/limit-headers.js';
import { useTestService } from '../helpers/test-service.js';

describe('outside the version segment', () => {
  const context = useTestService();

  it.each(['/health/live', '/health/ready', '/docs', '/docs/openapi.json'])(
    '%s needs no key, has no rate-limit headers and consumes no quota',
    async (path) => {
      // More requests than an address may send to the API, in sequence, because a readiness check uses the database.
      for (let number = 0; number < 65; number++) {
        const response = await fetch(`${context.service.baseUrl}${path}`);
        expect(response.status).toBe(200);
        expect([...response.headers.keys()].filter((name) => name.includes('ratelimit'))).toEqual([]);
        await response.body?.cancel();
      }
      const anonymous = await listOrders(context.service.baseUrl);
      expect(parseLimitHeaders(anonymous.headers, context.service.clock.now()).remaining).toBe(59);
    },
  );

  it('a request with a key consumes none of its quota', async () => {
    const { key } = await insertKey(context.service.db, { plan: 'free' });
    for (const path of ['/health/live', '/docs/openapi.json', '/nowhere']) {
      await fetch(`${context.service.baseUrl}${path}`, { headers: { Authorization: `Bearer ${key}` } });
    }
    const response = await listOrders(context.service.baseUrl, key);
    expect(parseLimitHeaders(response.headers, context.service.clock.now()).remaining).toBe(59);
  });
});
