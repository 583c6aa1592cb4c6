import { connect } from 'node:net';
import { committedDocument } from '../helpers/contract.js';
import { useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

const DOCUMENTED = ['https://{productionHost}/v1', 'https://{stagingHost}/v1'];

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
    expect(files.length).toBeGreaterThanOrEqual(5);
    for (const file of files) {
      expect({ file, status: (await fetch(file)).status }).toEqual({ file, status: 200 });
    }
  });

  it('has a prefilled key in the demo only', async () => {
    const script = await (await fetch(`${context.service.baseUrl}/docs/swagger-ui-init.js`)).text();
    expect(script).toContain('SwaggerUIBundle');
    expect(script).not.toMatch(/pst_\w{10}|"authAction"/);
  });
});

describe('clients that do not read the files', () => {
  const request = 'GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: test\r\n\r\n';

  /** The status of a response to a client with this address. */
  function statusFor(localAddress: string): Promise<string> {
    const { port } = context.service;
    return new Promise((resolve, reject) => {
      const socket = connect({ port, host: '127.0.0.1', localAddress }, () => socket.write(request));
      socket.once('error', reject).once('data', (data: Buffer) => {
        resolve(data.toString('latin1', 9, 12));
        socket.destroy();
      });
    });
  }

  it('hold a bounded number of them, shared fairly by the addresses', async () => {
    const unread = Array.from({ length: 64 }, () => {
      const socket = connect({ port: context.service.port, host: '127.0.0.1', localAddress: '127.0.0.2' }).pause();
      socket.on('error', () => undefined).write(request.repeat(16));
      return socket;
    });
    await waitFor(async () => (await statusFor('127.0.0.2')) === '503', 'the address has all of them');
    expect(await statusFor('127.0.0.3')).toBe('200');
    unread.forEach((socket) => socket.destroy());
    await waitFor(async () => (await statusFor('127.0.0.2')) === '200', 'they have been given back');
  });
});
