import { insertOrder } from '../helpers/builders.js';
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
    ['an invalid order id', 400, withKey('DELETE', '/v1/store/orders/one')],
    ['a missing key', 401, withoutKey('GET', '/v1/store/orders')],
    ['an order that does not exist', 404, withKey('DELETE', '/v1/store/orders/999')],
    ['an unsupported method', 405, withKey('PUT', '/v1/store/orders')],
    ['a path outside the version segment', 404, withoutKey('GET', '/nothing')],
    ['a path that cannot be decoded', 404, withKey('GET', '/v1/%zz')],
    ['a health check', 200, withoutKey('GET', '/health/live')],
    ['the documentation page', 200, withoutKey('GET', '/docs')],
    ['a file of the documentation page', 200, withoutKey('GET', '/docs/swagger-ui.css')],
    ['the OpenAPI document', 200, withoutKey('GET', '/docs/openapi.json')],
    [
      'a preflight request',
      204,
      withoutKey('OPTIONS', '/v1/store/orders', [`Origin: ${PAGE}`, 'Access-Control-Request-Method: GET']),
    ],
    ['CONNECT', 400, () => 'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n'],
    ['text that is not HTTP', 400, () => 'HELLO\r\n\r\n'],
    ['headers that are too large', 431, withKey('GET', '/v1/store/orders', [`X-Large: ${'x'.repeat(20_000)}`])],
  ])('are on the response to %s (%i)', async (_what, status, request) => {
    const text = request();
    const response = await responseTo(text, text.split(' ')[0]);
    expect(response.status).toBe(status);
    expectProtected(response);
  });

  it('are on the responses to a successful and a rejected cancel', async () => {
    const id = await insertOrder(context.service.db);
    for (const status of [204, 409]) {
      const response = await responseTo(
        requestText('DELETE', `/v1/store/orders/${id}`, { key: context.key }),
        'DELETE',
      );
      expect(response.status).toBe(status);
      expectProtected(response);
    }
  });
});
