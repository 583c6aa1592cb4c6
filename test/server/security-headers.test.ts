import { useTestService } from '../helpers/test-service.js';
import { responseTo } from '../helpers/wire.js';

const PAGE = 'https://app.example.com';

describe('security headers', () => {
  const context = useTestService({ environment: { CORS_ORIGINS: PAGE } });

  test.each<[string, status: number, method: string, target: string, ...headers: string[]]>([
    ['a list', 200, 'GET', '/v1/store/orders'],
    ['HEAD for the list', 200, 'HEAD', '/v1/store/orders'],
    ['an unchanged list', 304, 'GET', '/v1/store/orders', 'If-None-Match: *'],
    // `expectErrorResponse` checks those of errors.
    ['the index', 200, 'GET', '/'],
    ['a health check', 200, 'GET', '/health/live'],
    ['the documentation page', 200, 'GET', '/docs'],
    ['a file of the documentation page', 200, 'GET', '/docs/swagger-ui.css'],
    ['the OpenAPI document', 200, 'GET', '/docs/openapi.json'],
    ['a preflight', 204, 'OPTIONS', '/v1/store/orders', `Origin: ${PAGE}`, 'Access-Control-Request-Method: GET'],
  ])('are on the response to %s (%i): no sniffing, active content or framing', async (_what, status, ...request) => {
    const [method, target, ...headers] = request;
    const response = await responseTo(context.service.port, method, target, { key: context.key, headers });
    expect(response.status).toBe(status);
    expect(response.headers.get('x-content-type-options')).toEqual(['nosniff']);
    const policy = response.headers.get('content-security-policy')?.join() ?? '';
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toContain('upgrade-insecure-requests');
  });
});
