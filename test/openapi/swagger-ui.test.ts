import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { describeWithBrowser, startBrowser } from '../helpers/browser.js';
import { DemoCheckout, type DemoService } from '../helpers/demo-service.js';
import { DocsPage } from '../helpers/docs-page.js';

jest.setTimeout(60_000);

/** Set by `npm run screenshots`: the tests then take the screenshots of the README. */
const TAKE_SCREENSHOTS = process.env.SCREENSHOTS === 'true';
const IMAGES = join(__dirname, '..', '..', 'docs', 'images');

/** The demo orders: 1 and 6 are pending, 3 has shipped. */
const [PENDING, OTHER_PENDING, SHIPPED, UNKNOWN] = ['1', '6', '3', '999999999'];

describeWithBrowser('Swagger UI of the embedded demo', () => {
  let checkout: DemoCheckout;
  let service: DemoService;
  let browser: Browser;
  let docs: DocsPage;

  beforeAll(async () => {
    checkout = new DemoCheckout();
    [service, browser] = await Promise.all([checkout.serve(), startBrowser()]);
    docs = await DocsPage.open(await browser.newPage({ viewport: { width: 1_280, height: 900 } }), service.baseUrl);
  });
  afterAll(async () => {
    await browser.close();
    service.child.kill('SIGTERM');
    await service.exited;
    checkout.remove();
  });

  async function issueKey(...options: string[]): Promise<string> {
    const run = checkout.run('keys', 'issue', '--name', 'browser', '--plan', 'enterprise', '--json', ...options);
    expect(await run.exited).toBe(0);
    return (JSON.parse(run.output()) as { key: string }).key;
  }

  async function screenshot(docs: DocsPage, name: string): Promise<void> {
    if (TAKE_SCREENSHOTS) {
      mkdirSync(IMAGES, { recursive: true });
      await docs.page.screenshot({ path: join(IMAGES, `${name}.png`) });
    }
  }

  it('is authorized with the Free key, which appears neither in the document nor in the log', async () => {
    expect(await docs.isAuthorized()).toBe(true);
    await screenshot(docs, 'swagger-ui');
    const document = await (await fetch(`${service.baseUrl}/docs/openapi.json`)).text();
    expect(document).not.toContain(service.freeKey);
    const log = service
      .output()
      .split('\n')
      .filter((line) => line.startsWith('{'));
    expect(log.length).toBeGreaterThan(0);
    expect(log.join()).not.toContain(service.freeKey);
  });

  it('leaves If-None-Match empty', async () => {
    expect(await docs.parameter('listOrders', 'If-None-Match')).toBe('');
  });

  it('lists and cancels orders, and shows the errors of cancels that fail', async () => {
    const list = await docs.list();
    expect(list.status).toBe(200);
    expect(list.body).toMatch(/"id": 1,/);
    expect(list.body).toMatch(/x-ratelimit-limit: 60/);
    expect((await docs.cancel(PENDING)).status).toBe(204);
    const again = await docs.cancel(PENDING);
    expect([again.status, again.body]).toEqual([409, expect.stringContaining('order_already_cancelled')]);
    const shipped = await docs.cancel(SHIPPED);
    expect([shipped.status, shipped.body]).toEqual([409, expect.stringContaining('order_already_shipped')]);
    const unknown = await docs.cancel(UNKNOWN);
    expect([unknown.status, unknown.body]).toEqual([404, expect.stringContaining('order_not_found')]);
  });

  it('accepts another key, and shows 429 for a key over its limit and 401 for an invalid key', async () => {
    await docs.authorize(await issueKey('--per-minute', '9', '--per-day', '1'));
    const cancelled = await docs.cancel(OTHER_PENDING);
    expect([cancelled.status, cancelled.body]).toEqual([204, expect.stringMatching(/x-ratelimit-remaining: 0/)]);
    const spent = await docs.list();
    expect([spent.status, spent.body]).toEqual([
      429,
      expect.stringMatching(/rate_limit_exceeded[\s\S]*retry-after: \d/),
    ]);
    await docs.authorize('pst_nobody');
    const wrong = await docs.list();
    expect([wrong.status, wrong.body]).toEqual([401, expect.stringContaining('invalid_api_key')]);
  });

  it('fits the width of a phone, also with an open operation', async () => {
    const page = await browser.newPage({ viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true });
    const onPhone = await DocsPage.open(page, service.baseUrl);
    expect([await onPhone.width(), await onPhone.overflow()]).toEqual([390, 0]);
    await screenshot(onPhone, 'swagger-ui-phone');
    expect((await onPhone.list()).status).toBe(200);
    expect([await onPhone.width(), await onPhone.overflow()]).toEqual([390, 0]);
    expect(onPhone.errors).toEqual([]);
  });

  it('causes no console message, no failed request and no policy violation', () => {
    expect(docs.errors).toEqual([]);
  });
});
