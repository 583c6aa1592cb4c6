import { readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { committedDocument } from '../helpers/contract.js';
import { expectErrorResponse } from '../helpers/expect-error-response.js';
import { useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { exchange, responseTo } from '../helpers/wire.js';

const PRODUCTION = 'https://api.petstore.example/v1';
const STAGING = 'https://staging.api.petstore.example/v1';

interface Servers {
  readonly servers: readonly { readonly url: string; readonly description: string }[];
}

const context = useTestService();
const get = (path: string, headers = {}): Promise<Response> =>
  fetch(`${context.service.baseUrl}${path}`, { headers, redirect: 'manual' });

function urlsOf(document: string | object): string[] {
  const { servers } = (typeof document === 'string' ? JSON.parse(document) : document) as Servers;
  return servers.map(({ url }) => url);
}

describe('the servers of the document', () => {
  it('are production and staging in openapi.json', () => {
    expect(urlsOf(committedDocument())).toEqual([PRODUCTION, STAGING]);
  });

  it('start with the address that the client has used, as a whole URL', async () => {
    for (const host of ['127.0.0.1', 'localhost']) {
      const baseUrl = `http://${host}:${context.service.port}`;
      const document = await fetch(`${baseUrl}/docs/openapi.json`);
      expect(urlsOf(await document.text())).toEqual([`${baseUrl}/v1`, PRODUCTION, STAGING]);
    }
  });

  it('are production and staging for a client that does not say which address it has used', async () => {
    const request = 'GET /docs/openapi.json HTTP/1.0\r\n\r\n';
    const { responses } = await exchange(context.service.port, request, { until: 'closed' });
    expect(urlsOf(responses[0]?.body ?? '')).toEqual([PRODUCTION, STAGING]);
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

describe('the page of Swagger UI', () => {
  it('references only files that exist, which no page of another origin may load', async () => {
    const page = await get('/docs');
    expect(page.headers.get('content-security-policy')).toContain("frame-ancestors 'none'");
    const links = (await page.text()).matchAll(/<(?:script|link)[^>]+(?:src|href)=["']([^"']+)["']/g);
    const files = Array.from(links, ([, link = '']) => new URL(link, page.url).pathname);
    expect(files).toHaveLength(7);
    for (const file of files) {
      const { status, headers } = await get(file);
      expect([file, status, headers.get('cross-origin-resource-policy')]).toEqual([file, 200, 'same-origin']);
    }
  });

  it('has one address, to which its others lead, because its files are relative to it', async () => {
    for (const path of ['/docs/', '/docs/index.html']) {
      const response = await get(path);
      expect(new URL(response.headers.get('location') ?? '', response.url).pathname).toBe('/docs');
    }
  });

  it('has no key outside the demo', async () => {
    const script = await (await get('/docs/swagger-ui-init.js')).text();
    expect(script).toContain('SwaggerUIBundle');
    expect(script).not.toMatch(/pst_\w{10}|authAction"/);
  });

  it('is not found below other paths and with other methods', async () => {
    expectErrorResponse(await responseTo(context.service.port, 'GET', '/docs/package.json'), 404, 'route_not_found');
    expectErrorResponse(await responseTo(context.service.port, 'POST', '/docs'), 404, 'route_not_found');
  });
});

describe('a file of the page', () => {
  const FILE = '/docs/swagger-ui-bundle.js';

  it('is compressed for clients that accept it, and the same for others', async () => {
    const [compressed, plain] = [await get(FILE), await get(FILE, { 'Accept-Encoding': 'identity' })];
    expect(Number(compressed.headers.get('content-length'))).toBeLessThan(600_000);
    expect([compressed, plain].map(({ headers }) => headers.get('content-encoding'))).toEqual(['gzip', null]);
    for (const { headers } of [compressed, plain]) {
      expect(headers.get('vary')).toContain('Accept-Encoding');
    }
    expect((await compressed.text()) === (await plain.text())).toBe(true);
  });

  it.each([FILE, '/docs/openapi.json', '/docs/orders.js', '/docs'])(
    'is not sent again to a client that has it: %s',
    async (path) => {
      const etag = (await get(path)).headers.get('etag') ?? '';
      // `fetch` adds `Cache-Control: no-cache`.
      expect((await get(path, { 'If-None-Match': etag })).status).toBe(304);
      expect((await get(path, { 'If-None-Match': '"another"' })).status).toBe(200);
    },
  );

  it('does not stay open when the connection of pipelined requests is lost', async () => {
    const openFiles = (): number => readdirSync('/proc/self/fd').length;
    let requests = 0;
    context.service.app.getHttpServer().on('request', () => requests++);
    const before = openFiles();
    const sockets = Array.from({ length: 10 }, () => {
      const socket = connect(context.service.port, '127.0.0.1').pause();
      socket.on('error', () => undefined).write(`GET ${FILE} HTTP/1.1\r\nHost: test\r\n\r\n`.repeat(16));
      return socket;
    });
    await waitFor(() => requests === 160, 'all have been requested');
    sockets.forEach((socket) => socket.destroy());
    // Connections to the database may be opened meanwhile.
    await waitFor(() => openFiles() < before + 20, 'all are closed');
    expect(requests).toBe(160);
  });
});

/** As Chromium sends it. */
const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8';

describe('GET /', () => {
  it('leads a browser to Swagger UI', async () => {
    const response = await get('/', { accept: BROWSER });
    expect([response.status, response.headers.get('vary')]).toEqual([302, expect.stringMatching(/\bAccept\b/)]);
    expect(new URL(response.headers.get('location') ?? '', response.url).pathname).toBe('/docs');
  });

  it('tells a program where things are, without key and quota', async () => {
    const response = await get('/');
    expect(response.headers.get('x-ratelimit-limit')).toBeNull();
    expect(response.headers.get('cache-control')).toBe('no-store');
    const { api, ...others } = (await response.json()) as Record<string, string>;
    expect([api, Object.keys(others)]).toEqual(['/v1', ['health', 'docs', 'openapi']]);
    for (const path of Object.values(others)) {
      expect((await get(path)).status).toBe(200);
    }
  });

  describe('without Swagger UI', () => {
    const without = useTestService({ environment: { DOCS_ENABLED: 'false' } });

    it('names no pages of it, to browsers either', async () => {
      const response = await fetch(`${without.service.baseUrl}/`, { headers: { accept: BROWSER } });
      expect(await response.json()).toEqual({ api: '/v1', health: '/health/ready' });
    });
  });
});
