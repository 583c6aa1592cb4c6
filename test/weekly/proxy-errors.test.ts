import { connect, type Socket } from 'node:net';
import { freePort } from '../helpers/free-port.js';
import { waitFor } from '../helpers/wait-for.js';
import { describeWithProxy, ProxyProcess, SHIPPED_PROXIES } from '../helpers/shipped-proxies.js';

const [NGINX] = SHIPPED_PROXIES;
const HOST = 'Host: api.example.com\r\n';
const LONG = 'a'.repeat(20_000);

describeWithProxy(NGINX)(`${NGINX.name} with ${NGINX.file}`, () => {
  let proxy: ProxyProcess;
  const withoutTls = (): Socket => connect(proxy.port, '127.0.0.1');

  beforeAll(async () => {
    // No process of the service listens there: no request gets further than nginx.
    proxy = await ProxyProcess.start(NGINX, [await freePort(), await freePort(), await freePort()]);
    await waitFor(
      async () =>
        (await send(proxy.connectTls(), `GET / HTTP/1.1\r\n${HOST}Connection: close\r\n\r\n`)).startsWith(
          'HTTP/1.1 503',
        ),
      () => `nginx responds: ${proxy.log}`,
    );
  });
  afterAll(() => proxy.stop());

  it.each([
    ['a request line that is no HTTP', 'NONSENSE\r\n\r\n', 400],
    ['a body that is too large', `POST / HTTP/1.1\r\n${HOST}Content-Length: 99999999\r\n\r\n`, 400],
    ['an unknown transfer coding', `GET / HTTP/1.1\r\n${HOST}Transfer-Encoding: gzip, chunked\r\n\r\n`, 400],
    ['a path that is too long', `GET /${LONG} HTTP/1.1\r\n${HOST}\r\n`, 431],
    ['a header that is too long', `GET / HTTP/1.1\r\n${HOST}X-Long: ${LONG}\r\n\r\n`, 431],
  ])('returns an error in the format of the service for %s', async (_what, request, status) => {
    expectError(await send(proxy.connectTls(), request), status);
  });

  it('returns an error in the format of the service for HTTP without TLS', async () => {
    expectError(await send(withoutTls(), `GET / HTTP/1.1\r\n${HOST}\r\n`), 400);
  });
});

/** @returns all that is sent until the connection is closed */
async function send(socket: Socket, request: string): Promise<string> {
  let received = '';
  socket.on('data', (chunk: Buffer) => {
    received += chunk.toString();
    // Otherwise nginx waits for the rest of the body for five seconds.
    socket.end();
  });
  const closed = new Promise((resolve) => socket.once('close', resolve));
  // A response that is complete may be followed by a reset.
  socket.on('error', () => undefined);
  socket.write(request);
  await closed;
  return received;
}

function expectError(response: string, status: number): void {
  const [head = '', body = ''] = response.split('\r\n\r\n');
  expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
  expect(head).toMatch(/^content-type: application\/json$/im);
  expect(head).toMatch(/^cache-control: no-store$/im);
  const code = status === 431 ? 'request_header_fields_too_large' : 'bad_request';
  expect(JSON.parse(body)).toEqual({ code, message: expect.any(String) as string, status });
}
