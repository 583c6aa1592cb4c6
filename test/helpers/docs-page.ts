import type { Locator, Page } from 'playwright-core';

export interface DisplayedResponse {
  readonly status: number;
  readonly body: string;
}

/** Page object for Swagger UI. */
export class DocsPage {
  /** Console errors and warnings, uncaught exceptions, failed requests and policy violations. */
  readonly errors: string[] = [];

  private constructor(readonly page: Page) {}

  static async open(page: Page, baseUrl: string): Promise<DocsPage> {
    const docs = new DocsPage(page);
    page.on('pageerror', (error) => docs.errors.push(error.message));
    page.on('console', (message) => {
      // Chromium logs every response of 400 and above; the tests cause those of the API.
      const isApiResponse =
        message.location().url.startsWith(`${baseUrl}/v1/`) && message.text().startsWith('Failed to load');
      if (['error', 'warning'].includes(message.type()) && !isApiResponse) {
        docs.errors.push(message.text());
      }
    });
    page.on('requestfailed', (request) => docs.errors.push(`${request.url()}: ${request.failure()?.errorText ?? ''}`));
    await page.goto(`${baseUrl}/docs`);
    await docs.operation('listOrders').waitFor();
    return docs;
  }

  operation(id: 'listOrders' | 'cancelOrder'): Locator {
    return this.page.locator(`#operations-store-${id}`);
  }

  /** @returns whether a key is set */
  async isAuthorized(): Promise<boolean> {
    await this.#openAuthorize();
    const authorized = (await this.#logout.count()) > 0;
    await this.#closeAuthorize();
    return authorized;
  }

  /** Replaces the current key. */
  async authorize(key: string): Promise<void> {
    await this.#openAuthorize();
    if ((await this.#logout.count()) > 0) {
      await this.#logout.click();
    }
    await this.#dialog.locator('input').fill(key);
    await this.#dialog.locator('button[type=submit]').click();
    await this.#logout.waitFor();
    await this.#closeAuthorize();
  }

  async list(): Promise<DisplayedResponse> {
    return this.#execute(await this.#opened('listOrders'));
  }

  /** The value of a parameter in the opened operation. */
  async parameter(id: 'listOrders' | 'cancelOrder', name: string): Promise<string> {
    return (await this.#opened(id)).locator(`tr[data-param-name="${name}"] input`).inputValue();
  }

  async cancel(orderId: string): Promise<DisplayedResponse> {
    const operation = await this.#opened('cancelOrder');
    await operation.locator('tr[data-param-name=orderId] input').fill(orderId);
    return this.#execute(operation);
  }

  /** Layout width in CSS pixels. A phone uses a wider layout unless the page sets the viewport. */
  width(): Promise<number> {
    return this.page.evaluate('window.innerWidth');
  }

  /** Horizontal overflow in CSS pixels. */
  overflow(): Promise<number> {
    return this.page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth');
  }

  get #dialog(): Locator {
    return this.page.locator('.modal-ux');
  }

  get #logout(): Locator {
    return this.#dialog.locator('.auth-btn-wrapper button', { hasText: 'Logout' });
  }

  async #openAuthorize(): Promise<void> {
    await this.page.locator('.scheme-container .btn.authorize').click();
    await this.#dialog.waitFor();
  }

  async #closeAuthorize(): Promise<void> {
    await this.#dialog.locator('.btn-done').click();
    await this.#dialog.waitFor({ state: 'detached' });
  }

  async #opened(id: 'listOrders' | 'cancelOrder'): Promise<Locator> {
    const operation = this.operation(id);
    if ((await operation.locator('.opblock-body').count()) === 0) {
      await operation.locator('.opblock-summary-control').click();
      await operation.locator('button.execute').waitFor();
    }
    return operation;
  }

  /** Sends the request and reads the response that Swagger UI displays. */
  async #execute(operation: Locator): Promise<DisplayedResponse> {
    const clear = operation.locator('button.btn-clear');
    if ((await clear.count()) > 0) {
      await clear.click();
    }
    await operation.locator('button.execute').click();
    const row = operation.locator('.live-responses-table tr.response');
    await row.waitFor();
    return {
      status: Number.parseInt(await row.locator('.response-col_status').innerText(), 10),
      body: await row.locator('.response-col_description').innerText(),
    };
  }
}
