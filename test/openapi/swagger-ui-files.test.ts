import { connect } from 'node:net';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

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

describe('clients that do not read the files', () => {
  const request = 'GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: test\r\n\r\n';

  /** The status of a response to a client with this address. */
  function statusFor(localAddress: string): Promise<string> {
    return new Promise((resolve, reject) => {
      const socket = connect({ port: service.port, host: '127.0.0.1', localAddress }, () => socket.write(request));
      socket.once('error', reject).once('data', (data: Buffer) => {
        resolve(data.toString('latin1', 9, 12));
        socket.destroy();
      });
    });
  }

  it('hold a bounded number of them, shared fairly by the addresses', async () => {
    const unread = Array.from({ length: 64 }, () => {
      const socket = connect({ port: service.port, host: '127.0.0.1', localAddress: '127.0.0.2' }).pause();
      socket.on('error', () => undefined).write(request.repeat(16));
      return socket;
    });
    try {
      await waitFor(async () => (await statusFor('127.0.0.2')) === '503', 'the address has all of them');
      expect(await statusFor('127.0.0.3')).toBe('200');
    } finally {
      for (const socket of unread) {
        socket.destroy();
      }
    }
    await waitFor(async () => (await statusFor('127.0.0.2')) === '200', 'they have been given back');
  });
});
