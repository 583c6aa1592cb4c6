import { join } from 'node:path';
import type { Browser, Locator, Page } from 'playwright-core';
import { describeWithBrowser, startBrowser } from '../helpers/browser.js';
import { DemoCheckout, type DemoService } from '../helpers/demo-service.js';

const checkout = new DemoCheckout();
let service: DemoService;
let browser: Browser;
/** Console errors and warnings, uncaught exceptions, failed requests and policy violations of all pages. */
const errors: string[] = [];

async function openDocs(): Promise<Page> {
  const page = await browser.newPage({ viewport: { width: 1_280, height: 900 } });
  page.on('pageerror', (error) => errors.push(error.message));
  page.on('console', (message) => {
    // Chromium logs every response of 400 and above; the tests cause those of the API.
    const isApiResponse =
      message.location().url.startsWith(`${service.baseUrl}/v1/`) && message.text().startsWith('Failed to load');
    if (['error', 'warning'].includes(message.type()) && !isApiResponse) {
      errors.push(message.text());
    }
  });
  page.on('requestfailed', (request) => errors.push(`${request.url()}: ${request.failure()?.errorText ?? ''}`));
  await page.goto(`${service.baseUrl}/docs`);
  await page.locator('#operations-store-listOrders').waitFor();
  return page;
}

async function opened(page: Page, id: 'listOrders' | 'cancelOrder'): Promise<Locator> {
  const operation = page.locator(`#operations-store-${id}`);
  if ((await operation.locator('.opblock-body').count()) === 0) {
    await operation.locator('.opblock-summary-control').click();
    await operation.locator('button.execute').waitFor();
  }
  return operation;
}

/** Sends the request and reads the response that Swagger UI displays: its status, headers and body. */
async function execute(operation: Locator): Promise<string> {
  const clear = operation.locator('button.btn-clear');
  if ((await clear.count()) > 0) {
    await clear.click();
  }
  await operation.locator('button.execute').click();
  const row = operation.locator('.live-responses-table tr.response');
  await row.waitFor();
  return row.innerText();
}

async function cancel(page: Page, orderId: string): Promise<string> {
  const operation = await opened(page, 'cancelOrder');
  await operation.locator('tr[data-param-name=orderId] input').fill(orderId);
  return execute(operation);
}

describeWithBrowser('Swagger UI of the embedded demo', () => {
  beforeAll(async () => {
    [service, browser] = await Promise.all([checkout.serve(), startBrowser()]);
  });
  afterAll(async () => {
    await browser.close();
    service.child.kill('SIGTERM');
    await service.exited;
  });

  it('is authorized with the Free key, which appears neither in the document nor in the log', async () => {
    const page = await openDocs();
    // Set by `npm run screenshots`.
    if (process.env.SCREENSHOTS === 'true') {
      await page.screenshot({ path: join(__dirname, '..', '..', 'docs', 'images', 'swagger-ui.png') });
    }
    const operation = await opened(page, 'listOrders');
    // Otherwise the page would get 304, which has no body.
    expect(await operation.locator('tr[data-param-name="If-None-Match"] input').inputValue()).toBe('');
    expect(await execute(operation)).toMatch(/^200[^]*"id": 1,[^]*x-ratelimit-limit: 60/);
    expect(await (await fetch(`${service.baseUrl}/docs/openapi.json`)).text()).not.toContain(service.freeKey);
    const log = service.output().match(/^\{.*/gm) ?? [];
    expect(log.length).toBeGreaterThan(0);
    expect(log.join()).not.toContain(service.freeKey);
  });

  it('cancels an order, and shows the errors of the API', async () => {
    const page = await openDocs();
    expect(await cancel(page, '1')).toMatch(/^204/);
    expect(await cancel(page, '1')).toMatch(/^409[^]*order_already_cancelled/);
    await page.locator('.scheme-container .btn.authorize').click();
    const dialog = page.locator('.modal-ux');
    await dialog.locator('.auth-btn-wrapper button', { hasText: 'Logout' }).click();
    await dialog.locator('input').fill('pst_nobody');
    await dialog.locator('button[type=submit]').click();
    await dialog.locator('.btn-done').click();
    expect(await cancel(page, '1')).toMatch(/^401[^]*invalid_api_key/);
  });

  it('causes no console message, no failed request and no policy violation', () => {
    expect(errors).toEqual([]);
  });
});
