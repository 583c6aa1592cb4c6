import { expectErrorResponse } from '../helpers/expect-error-response.js';
import { useTestService } from '../helpers/test-service.js';
import { responseTo } from '../helpers/wire.js';

/** As Chromium sends it. */
const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8';

const context = useTestService();

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
