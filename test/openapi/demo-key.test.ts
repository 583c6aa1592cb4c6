import { startTestService } from '../helpers/test-service.js';

describe('the key that Swagger UI comes with', () => {
  it('is there in the demo alone: a service on a database of its own has none', async () => {
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
