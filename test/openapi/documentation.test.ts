import promises from 'node:fs/promises';
import { connect } from 'node:net';
import { committedDocument } from '../helpers/contract.js';
import { expectErrorResponse } from '../helpers/expect-error-response.js';
import { useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { type WireResponse, responseTo } from '../helpers/wire.js';

const DOCUMENTED = ['https://api.petstore.example/v1', 'https://staging.api.petstore.example/v1'];

interface Servers {
  readonly servers: readonly { readonly url: string; readonly description: string }[];
}

const context = useTestService();

async function serversOf(baseUrl: string): Promise<string[]> {
  const response = await fetch(`${baseUrl}/docs/openapi.json`);
  return ((await response.json()) as Servers).servers.map(({ url }) => url);
}

describe('the servers of the document', () => {
  it('are production and staging in openapi.json, both ending in /v1', () => {
    const { servers } = committedDocument() as unknown as Servers;
    expect(servers.map(({ description }) => description)).toEqual(['Production', 'Staging']);
    expect(servers.map(({ url }) => url)).toEqual(DOCUMENTED);
  });

  it('start with the service itself when PUBLIC_BASE_URL is not set, so that Try it out calls it', async () => {
    expect(await serversOf(context.service.baseUrl)).toEqual(['/v1', ...DOCUMENTED]);
  });

  describe('with both variables set', () => {
    const [PUBLIC_BASE_URL, STAGING_BASE_URL] = ['https://api.example.com/v1', 'https://staging.example.com/v1'];
    const configured = useTestService({ environment: { PUBLIC_BASE_URL, STAGING_BASE_URL } });

    it('are the configured ones', async () => {
      expect(await serversOf(configured.service.baseUrl)).toEqual([PUBLIC_BASE_URL, STAGING_BASE_URL]);
    });
  });
});

describe('the page of Swagger UI', () => {
  it.each(['/docs', '/docs/'])('references only files that exist: %s', async (path) => {
    const page = await fetch(`${context.service.baseUrl}${path}`);
    const links = (await page.text()).matchAll(/<(?:script|link)[^>]+(?:src|href)="([^"]+)"/g);
    const files = Array.from(links, ([, link = '']) => String(new URL(link, page.url)));
    expect(files).toHaveLength(4);
    for (const file of files) {
      expect({ file, status: (await fetch(file)).status }).toEqual({ file, status: 200 });
    }
  });

  it('has a prefilled key in the demo only', async () => {
    const script = await (await fetch(`${context.service.baseUrl}/docs/swagger-ui-init.js`)).text();
    expect(script).toContain('SwaggerUIBundle');
    expect(script).toContain('press **Authorize** and paste your key');
    expect(script).not.toMatch(/pst_\w{10}|"demoKey"/);
  });

  it('is framed by no page, and no page of another origin loads its script, which may have a key', async () => {
    const page = await fetch(`${context.service.baseUrl}/docs`);
    expect(page.headers.get('content-security-policy')).toContain("frame-ancestors 'none'");
    const script = await fetch(`${context.service.baseUrl}/docs/swagger-ui-init.js`);
    expect(script.headers.get('cross-origin-resource-policy')).toBe('same-origin');
  });
});

describe('the files of Swagger UI', () => {
  const file = (): string => `${context.service.baseUrl}/docs/swagger-ui-bundle.js`;

  it('cost no memory for clients that do not read them, which stop no other client', async () => {
    const text = await (await fetch(file())).text();
    const before = process.memoryUsage();
    let requests = 0;
    context.service.app.getHttpServer().on('request', () => requests++);
    const unread = Array.from({ length: 100 }, () => {
      const socket = connect(context.service.port, '127.0.0.1')
        .pause()
        .on('error', () => undefined);
      socket.write('GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: test\r\n\r\n'.repeat(16));
      return socket;
    });
    await waitFor(() => requests === 1_600, 'all have been requested', { withinMs: 60_000 });
    expect(await (await fetch(file())).text()).toBe(text);
    const { arrayBuffers, heapUsed } = process.memoryUsage();
    expect(arrayBuffers + heapUsed - before.arrayBuffers - before.heapUsed).toBeLessThan(100e6);
    unread.forEach((socket) => socket.destroy());
  });

  it('are not sent to a client that has them', async () => {
    const etag = (await fetch(file())).headers.get('etag') ?? '';
    const headers = { 'If-None-Match': etag, 'Cache-Control': 'max-age=0' };
    expect((await fetch(file(), { headers })).status).toBe(304);
  });
});

describe('Swagger UI whose files cannot be read at first', () => {
  const fresh = useTestService();

  it('is served as soon as they can be read', async () => {
    const page = (): Promise<WireResponse> => responseTo(fresh.service.port, 'GET', '/docs');
    jest.spyOn(promises, 'readFile').mockRejectedValueOnce(Object.assign(new Error('too many'), { code: 'EMFILE' }));
    expectErrorResponse(await page(), 500, 'internal_error');
    expect((await page()).status).toBe(200);
  });
});

/** As Chromium sends it. */
const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8';

const index = (accept?: string): Promise<Response> =>
  fetch(`${context.service.baseUrl}/`, { headers: accept === undefined ? {} : { accept }, redirect: 'manual' });

describe('GET /', () => {
  it('leads a browser to Swagger UI', async () => {
    const response = await index(BROWSER);
    expect(response.status).toBe(302);
    expect(response.headers.get('vary')).toContain('Accept');
    const page = await fetch(new URL(response.headers.get('location') ?? '', response.url));
    expect([page.url, page.status]).toEqual([`${context.service.baseUrl}/docs`, 200]);
  });

  it.each([undefined, '*/*', 'application/json'])('tells a program where things are: Accept %s', async (accept) => {
    const response = await index(accept);
    expect(response.status).toBe(200);
    expect(response.headers.get('vary')).toMatch(/\bAccept\b/);
    const { api, ...others } = (await response.json()) as Record<string, string>;
    expect(api).toBe('/v1');
    expect(Object.keys(others)).toEqual(['health', 'docs', 'openapi']);
    for (const path of Object.values(others)) {
      expect((await fetch(`${context.service.baseUrl}${path}`)).status).toBe(200);
    }
  });

  it('needs no key, consumes no quota and is not cached', async () => {
    const { headers } = await index();
    expect(headers.get('x-ratelimit-limit')).toBeNull();
    expect(headers.get('cache-control')).toBe('no-store');
  });

  it('returns 404 for another method', async () => {
    expectErrorResponse(await responseTo(context.service.port, 'POST', '/'), 404, 'route_not_found');
  });

  describe('without Swagger UI', () => {
    const without = useTestService({ environment: { DOCS_ENABLED: 'false' } });

    it('names no pages of it, to browsers either', async () => {
      const response = await fetch(`${without.service.baseUrl}/`, { headers: { accept: BROWSER } });
      expect(await response.json()).toEqual({ api: '/v1', health: '/health/ready' });
    });
  });
});
