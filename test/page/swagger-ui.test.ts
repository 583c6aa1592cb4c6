import { readFileSync } from 'node:fs';
import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import pg from 'pg';
import type { Browser, Locator, Page } from 'playwright-core';
import { describeWithBrowser, startBrowser } from '../helpers/browser.js';
import { DemoCheckout, type DemoService } from '../helpers/demo-service.js';
import { listen } from '../helpers/listen.js';
import { useTestService } from '../helpers/test-service.js';

const checkout = new DemoCheckout();
let service: DemoService;
let browser: Browser;
/** Console errors and warnings, uncaught exceptions, failed requests and policy violations of all pages. */
const errors: string[] = [];

afterEach(() => {
  expect(errors).toEqual([]);
});

async function openDocs(baseUrl: string, path = '/docs'): Promise<Page> {
  const page = await browser.newPage({ viewport: { width: 1_280, height: 900 } });
  page.on('pageerror', (error) => errors.push(error.message));
  page.on('console', (message) => {
    // Chromium logs every response of 400 and above; the tests cause those of the API.
    const isApiResponse =
      message.location().url.startsWith(`${baseUrl}/v1/`) && message.text().startsWith('Failed to load');
    if (['error', 'warning'].includes(message.type()) && !isApiResponse) {
      errors.push(message.text());
    }
  });
  page.on('requestfailed', (request) => errors.push(`${request.url()}: ${request.failure()?.errorText ?? ''}`));
  await page.goto(`${baseUrl}${path}`);
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

async function authorize(page: Page, key: string): Promise<void> {
  await page.locator('.scheme-container .btn.authorize').click();
  const dialog = page.locator('.modal-ux');
  const logout = dialog.locator('.auth-btn-wrapper button', { hasText: 'Logout' });
  if ((await logout.count()) > 0) {
    await logout.click();
  }
  await dialog.locator('input').fill(key);
  await dialog.locator('button[type=submit]').click();
  await dialog.locator('.btn-done').click();
}

describeWithBrowser('Swagger UI of the embedded demo', () => {
  let db: pg.Client;
  let page: Page;
  beforeAll(async () => {
    [service, browser] = await Promise.all([checkout.serve(), startBrowser()]);
    db = new pg.Client(/Database +(postgresql:\S+)/.exec(service.output)?.[1]);
    await db.connect();
    page = await openDocs(service.baseUrl);
  });
  afterAll(async () => {
    await browser.close();
    await db.end();
    service.child.kill('SIGTERM');
    await service.exited;
  });

  it('is authorized with the Free key, which appears neither in the document nor in the log', async () => {
    const operation = await opened(page, 'listOrders');
    // Otherwise the page would get 304, which has no body.
    expect(await operation.locator('tr[data-param-name="If-None-Match"] input').inputValue()).toBe('');
    expect(await execute(operation)).toMatch(/^200[^]*"id": 1,[^]*x-ratelimit-limit: 60/);
    // See CONTRIBUTING.md.
    if (process.env.SCREENSHOTS === 'true') {
      await operation.locator('.btn-group').evaluate('(element) => element.scrollIntoView()');
      await page.screenshot({ path: join(__dirname, '..', '..', 'docs', 'images', 'swagger-ui.png') });
    }
    expect(await (await fetch(`${service.baseUrl}/docs/openapi.json`)).text()).not.toContain(service.freeKey);
    const log = service.output.match(/^\{.*/gm) ?? [];
    expect(log.length).toBeGreaterThan(0);
    expect(log.join()).not.toContain(service.freeKey);
  });

  it('cancels the order that is entered, proposes none, and shows the errors of the API', async () => {
    const operation = await opened(page, 'cancelOrder');
    expect(await operation.locator('tr[data-param-name=orderId] input').inputValue()).toBe('');
    // Swagger UI's own button, which ends the input of parameters.
    expect(await operation.getByText('Cancel', { exact: true }).isVisible()).toBe(false);
    expect(await cancel(page, '1')).toMatch(/^204/);
    expect(await cancel(page, '1')).toMatch(/^409[^]*order_already_cancelled/);
    await authorize(page, 'pst_nobody');
    expect(await cancel(page, '1')).toMatch(/^401[^]*invalid_api_key/);
    await authorize(page, service.freeKey);
  });

  it('shows ids above 2^53 as they were sent, and cancels the one that is entered', async () => {
    const ids = ['9007199254740992', '9007199254740993', '9223372036854775807'];
    await db.query('INSERT INTO orders (id, pet_id, quantity) SELECT unnest($1::bigint[]), -9007199254740993, 1', [
      ids,
    ]);
    const response = await execute(await opened(page, 'listOrders'));
    for (const id of ids) {
      expect(response).toMatch(new RegExp(`"id": ${id},\\s+"petId": -9007199254740993,`));
    }
    expect(await cancel(page, '9007199254740993')).toMatch(/^204/);
    const { rows } = await db.query('SELECT id, status FROM orders WHERE id = ANY ($1) ORDER BY id', [ids]);
    expect(rows.map(({ status }: { status: string }) => status)).toEqual(['pending', 'cancelled', 'pending']);
  });

  it('displays the first of 100,000 orders, and offers all as a download', async () => {
    await db.query('TRUNCATE orders');
    await db.query('INSERT INTO orders (pet_id, quantity) SELECT n, 1 FROM generate_series(1, 100000) AS n');
    const operation = await opened(page, 'listOrders');
    expect(await execute(operation)).toMatch(/^200[^]*The first 100 of 100,000 orders[^]*"petId": 100,/);
    // Swagger UI makes five elements of each field: with all orders, the page would not react.
    expect(await operation.locator('.live-responses-table *').count()).toBeLessThan(10_000);
    const download = page.waitForEvent('download');
    await operation.getByText('Download all').click();
    const saved = readFileSync(await (await download).path(), 'utf8');
    const headers = { Authorization: `Bearer ${service.freeKey}` };
    const list = await fetch(`${service.baseUrl}/v1/store/orders`, { headers });
    expect(saved === (await list.text())).toBe(true);
  });
});

describeWithBrowser('Swagger UI of a service with a public address', () => {
  const context = useTestService({ environment: { PUBLIC_BASE_URL: 'https://api.example.com/v1' } });
  let proxy: Server;
  beforeAll(async () => {
    browser = await startBrowser();
    proxy = createServer((req, res) => {
      const { method, headers, url = '' } = req;
      const options = { port: context.service.port, path: url.replace('/shop', ''), method, headers };
      request(options, (response) => {
        res.writeHead(response.statusCode ?? 0, response.headers);
        response.pipe(res);
      }).end();
    });
    await listen(proxy);
  });
  afterAll(async () => {
    await browser.close();
    proxy.closeAllConnections();
    proxy.close();
  });

  it('calls the address that it was loaded from, also below a path of a proxy', async () => {
    const baseUrl = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/shop`;
    const page = await openDocs(baseUrl, '/');
    expect(page.url()).toBe(`${baseUrl}/docs`);
    expect(await page.locator('.servers option').allInnerTexts()).toEqual([`${baseUrl}/v1 - This server`]);
    await authorize(page, context.key);
    expect(await execute(await opened(page, 'listOrders'))).toMatch(/^200/);
    await page.goto(`${baseUrl}/docs/`);
    await opened(page, 'listOrders');
  });
});
