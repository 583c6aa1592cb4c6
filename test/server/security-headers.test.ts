import { useTestService } from '../helpers/test-service.js';
import { exchange, requestText, type WireResponse } from '../helpers/wire.js';

const PAGE = 'https://app.example.com';

describe('security headers', () => {
  const context = useTestService({ environment: { CORS_ORIGINS: PAGE } });

  async function responseTo(text: string, method = 'GET'): Promise<WireResponse> {
    const { responses } = await exchange(context.service.port, text, { until: 1, methods: [method] });
    return responses[0]!;
  }

  /** No content sniffing, no active content, no framing. */
  function expectProtected({ headers }: WireResponse): void {
    expect(headers.get('x-content-type-options')).toEqual(['nosniff']);
    const policy = headers.get('content-security-policy')?.join() ?? '';
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toContain('upgrade-insecure-requests');
  }

  const withKey = (method: string, target: string, headers: readonly string[] = []): (() => string) => {
    return () => requestText(method, target, { key: context.key, headers });
  };
  const withoutKey = (method: string, target: string, headers: readonly string[] = []): (() => string) => {
    return () => requestText(method, target, { headers });
  };

  test.each<[string, number, () => string]>([
    ['a list', 200, withKey('GET', '/v1/store/orders')],
    ['HEAD for the list', 200, withKey('HEAD', '/v1/store/orders')],
    ['an unchanged list', 304, withKey('GET', '/v1/store/orders', ['If-None-Match: *'])],
    // `expectErrorResponse` checks those of errors.
    ['a health check', 200, withoutKey('GET', '/health/live')],
    ['the documentation page', 200, withoutKey('GET', '/docs')],
    ['a file of the documentation page', 200, withoutKey('GET', '/docs/swagger-ui.css')],
    ['the OpenAPI document', 200, withoutKey('GET', '/docs/openapi.json')],
    [
      'a preflight request',
      204,
      withoutKey('OPTIONS', '/v1/store/orders', [`Origin: ${PAGE}`, 'Access-Control-Request-Method: GET']),
    ],
  ])('are on the response to %s (%i)', async (_what, status, request) => {
    const text = request();
    const response = await responseTo(text, text.split(' ')[0]);
    expect(response.status).toBe(status);
    expectProtected(response);
  });
});
