import { startTestService } from '../helpers/test-service.js';

describe('the prefilled key of Swagger UI', () => {
  it('exists only in the demo, not in a service with DATABASE_URL', async () => {
    const service = await startTestService();
    try {
      const script = await (await fetch(`${service.baseUrl}/docs/swagger-ui-init.js`)).text();
      expect(script).toContain('SwaggerUIBundle');
      expect(script).not.toMatch(/pst_\w{10}/);
      expect(script).not.toMatch(/"authAction"/);
    } finally {
      await service.stop();
    }
  });
});
