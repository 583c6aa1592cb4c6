import { startTestService, type TestService } from '../helpers/test-service.js';

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service.stop());

/** What a page loads, as a browser resolves it. */
function filesOf(html: string, pageUrl: string): string[] {
  return Array.from(html.matchAll(/<(?:script|link)[^>]+(?:src|href)="([^"]+)"/g), ([, path]) =>
    String(new URL(path ?? '', pageUrl)),
  );
}

describe('the page of Swagger UI', () => {
  it.each(['/docs', '/docs/'])('references only files that exist: %s', async (path) => {
    const page = await fetch(`${service.baseUrl}${path}`);
    expect(page.status).toBe(200);
    const files = filesOf(await page.text(), page.url);
    expect(files.length).toBeGreaterThanOrEqual(5);
    for (const file of files) {
      expect({ file, status: (await fetch(file)).status }).toEqual({ file, status: 200 });
    }
  });
});
