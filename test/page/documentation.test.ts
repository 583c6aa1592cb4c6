import { committedDocument } from '../helpers/contract.js';
import { useTestService } from '../helpers/test-service.js';

const PRODUCTION = 'https://api.petstore.example/v1';
const STAGING = 'https://staging.api.petstore.example/v1';

interface Servers {
  readonly servers: readonly { readonly url: string; readonly description: string }[];
}

const context = useTestService();
const get = (path: string): Promise<Response> => fetch(`${context.service.baseUrl}${path}`);

function urlsOf(document: string | object): string[] {
  const { servers } = (typeof document === 'string' ? JSON.parse(document) : document) as Servers;
  return servers.map(({ url }) => url);
}

describe('the servers of the document', () => {
  it('are production and staging in openapi.json', () => {
    expect(urlsOf(committedDocument())).toEqual([PRODUCTION, STAGING]);
  });

  describe('behind a trusted proxy', () => {
    const behindProxy = useTestService({ environment: { TRUST_PROXY: '1' } });

    it("start with the proxy's address", async () => {
      const headers = { 'X-Forwarded-Proto': 'https', 'X-Forwarded-Host': 'api.example.com' };
      const document = await fetch(`${behindProxy.service.baseUrl}/docs/openapi.json`, { headers });
      expect(urlsOf(await document.text())[0]).toBe('https://api.example.com/v1');
    });
  });

  describe('with both variables set', () => {
    const [PUBLIC_BASE_URL, STAGING_BASE_URL] = ['https://api.example.com/v1', 'https://staging.example.com/v1'];
    const configured = useTestService({ environment: { PUBLIC_BASE_URL, STAGING_BASE_URL } });

    it('are the configured ones', async () => {
      const document = await fetch(`${configured.service.baseUrl}/docs/openapi.json`);
      expect(urlsOf(await document.text())).toEqual([PUBLIC_BASE_URL, STAGING_BASE_URL]);
    });
  });
});

const NEEDED = ['swagger-ui.css', 'swagger-ui-bundle.js', 'swagger-ui-init.js', 'orders.js'];

describe('the page of Swagger UI', () => {
  it('references only files that exist, which no page of another origin may load', async () => {
    const page = await get('/docs');
    const policy = page.headers.get('content-security-policy');
    expect(policy).toContain("frame-ancestors 'none'");
    // The page would stay blank over http.
    expect(policy).not.toContain('upgrade-insecure-requests');
    const links = (await page.text()).matchAll(/<(?:script|link)[^>]+(?:src|href)=["']([^"']+)["']/g);
    const files = Array.from(links, ([, link = '']) => new URL(link, page.url).pathname);
    expect(files).toEqual(expect.arrayContaining(NEEDED.map((name) => `/docs/${name}`)));
    for (const file of files) {
      const { status, headers } = await get(file);
      expect([file, status, headers.get('cross-origin-resource-policy')]).toEqual([file, 200, 'same-origin']);
    }
  });

  it('has no key outside the demo', async () => {
    const script = await (await get('/docs/swagger-ui-init.js')).text();
    expect(script).toContain('SwaggerUIBundle');
    expect(script).not.toMatch(/pst_\w{10}|authAction"/);
  });
});
