import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { gunzipSync } from 'node:zlib';
import { insertKey } from '../helpers/builders.js';
import { freePort } from '../helpers/free-port.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { describeWithProxy, ProxyProcess, SHIPPED_PROXIES } from '../helpers/shipped-proxies.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';

const [NGINX] = SHIPPED_PROXIES;
const HOST = 'Host: api.example.com\r\n';
const LONG = 'a'.repeat(20_000);

const ORDERS = 100_000;
const UPSTREAMS = 3;

const database = useTestDatabase();
let key: string;
/** Orders up to this id have been cancelled. */
let cancelled = 0;
beforeAll(async () => {
  await database.db.query(
    `INSERT INTO orders (id, pet_id, quantity)
     SELECT n, 9007199254740993 + (random() * 1e15)::bigint, 1 + (random() * 1e6)::int FROM generate_series(1, ${ORDERS}) AS n`,
  );
  ({ key } = await insertKey(database.db));
});

for (const kind of SHIPPED_PROXIES) {
  describeWithProxy(kind)(`behind ${kind.name} with ${kind.file}`, () => {
    let services: ServiceProcess[];
    let ports: number[];
    let proxy: ProxyProcess;

    const startService = (port: number): Promise<ServiceProcess> =>
      ServiceProcess.start({
        DATABASE_URL: database.url,
        TRUST_PROXY: '1',
        PORT: String(port),
        SHUTDOWN_DELAY_SECONDS: kind.shutdownDelay,
      });

    beforeAll(async () => {
      ports = await Promise.all(Array.from({ length: UPSTREAMS }, freePort));
      services = await Promise.all(ports.map(startService));
      proxy = await ProxyProcess.start(kind, ports);
      await waitFor(isReady, () => `${kind.name} responds: ${proxy.output}`);
    });
    afterAll(async () => {
      await proxy.stop();
      await Promise.all(services.map((service) => service.stop()));
    });

    const urlOf = (path: string): string => `${kind.tls ? 'https' : 'http'}://api.example.com:${proxy.port}${path}`;
    const toProxy = (): string[] => [
      ...['--silent', '--show-error', '--cacert', proxy.certificate],
      ...['--resolve', `api.example.com:${proxy.port}:127.0.0.1`],
    ];
    /** Sends a request through the proxy with curl; `code` is curl's exit code. */
    const curl = (path: string, ...args: string[]): Promise<CurlResult> =>
      runCurl([...toProxy(), ...args, urlOf(path)]);
    const bearer = (): string[] => ['-H', `Authorization: Bearer ${key}`];
    const list = (...args: string[]): Promise<CurlResult> => curl('/v1/store/orders', ...bearer(), ...args);
    const isReady = async (): Promise<boolean> => (await curl('/health/ready')).status === 200;

    it('the list is whole, and compressed only by the service', async () => {
      const compressed = await list('-H', 'Accept-Encoding: gzip');
      const plain = await list();
      expect([compressed.code, compressed.status, plain.code, plain.status]).toEqual([0, 200, 0, 200]);
      expect(compressed.headers).toMatch(/^content-encoding: gzip/im);
      expect(plain.headers).not.toMatch(/^content-encoding:/im);
      expect(gunzipSync(compressed.body).equals(plain.body)).toBe(true);
      const { rows } = await database.db.query<{ pets: string }>('SELECT sum(pet_id)::text AS pets FROM orders');
      const pets = plain.body.toString().matchAll(/"petId":(\d+)/g);
      const sum = Array.from(pets, ([, id]) => BigInt(id ?? '')).reduce((total, id) => total + id, 0n);
      expect(String(sum)).toBe(rows[0]?.pets);
    });

    it('conditional requests pass, and not how long the service keeps an idle connection', async () => {
      const { headers } = await list('--http1.1');
      expect(headers).not.toMatch(/^keep-alive:/im);
      const etag = /^etag: *(\S+)/im.exec(headers)?.[1] ?? '';
      const unchanged = await list('-H', `If-None-Match: ${etag}`);
      expect([unchanged.status, unchanged.body.length]).toEqual([304, 0]);
    });

    it('the service sees the address of the client and no forged one', async () => {
      for (let count = 0; count < 6; count++) {
        await curl('/v1/store/orders', '--interface', '127.0.0.3', '-H', 'X-Forwarded-For: 203.0.113.9');
      }
      /**
       * What an address has used of its day, because a minute may end meanwhile. Asked without the proxy, so that the header has the
       * address. Each process counts in its own memory.
       */
      const used = async (address: string): Promise<number> => {
        const counts = services.map(async ({ baseUrl }) => {
          const response = await fetch(`${baseUrl}/v1/store/orders`, { headers: { 'X-Forwarded-For': address } });
          return 999 - Number(/"day";r=(\d+)/.exec(response.headers.get('ratelimit') ?? '')?.[1]);
        });
        return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
      };
      expect(await used('203.0.113.9')).toBe(0);
      expect(await used('127.0.0.3')).toBeGreaterThan(0);
    });

    it('no request is lost while the processes are restarted one after the other', async () => {
      const results: string[] = [];
      let isRolling = true;
      const client = async (): Promise<void> => {
        while (isRolling) {
          const ids = Array.from({ length: 20 }, () => ++cancelled);
          // Twenty cancels on one connection.
          results.push(...(await cancelStatuses(ids.map((id) => `/v1/store/orders/${id}`))));
        }
      };
      const clients = Promise.all([client(), client(), client()]);
      try {
        for (const [index, service] of services.entries()) {
          const before = results.length;
          expect(await service.stop()).toBe(0);
          services[index] = await startService(ports[index]!);
          await waitFor(() => results.length > before + 100, 'requests have their responses');
          // The health checks of the proxy find the new process.
          const areReady = async (): Promise<boolean> => (await Promise.all([1, 2, 3].map(isReady))).every(Boolean);
          await waitFor(areReady, 'the proxy finds all processes');
        }
      } finally {
        isRolling = false;
        await clients;
      }
      expect(results.length).toBeGreaterThan(300);
      expect(results.filter((status) => status !== '204')).toEqual([]);
    });

    it('an error has the format of the service when no process runs', async () => {
      await Promise.all(services.map((service) => service.stop('SIGKILL')));
      const { status, headers, body } = await list();
      expect(status).toBe(503);
      expect(headers).toMatch(/^content-type: application\/json/im);
      expect(headers).toMatch(/^retry-after: 1/im);
      expect(JSON.parse(body.toString())).toMatchObject({ code: 'service_unavailable', status });
    });

    if (kind === NGINX) {
      it.each([
        ['a request line that is no HTTP', 'NONSENSE\r\n\r\n', 400, 'bad_request'],
        ['a path that is too long', `GET /${LONG} HTTP/1.1\r\n${HOST}\r\n`, 431, 'request_header_fields_too_large'],
      ])('an error has the format of the service for %s', async (_what, request, status, code) => {
        const ca = readFileSync(proxy.certificate);
        const socket = connectTls({ host: '127.0.0.1', port: proxy.port, servername: 'api.example.com', ca });
        expectError(await send(socket, request), status, code);
      });

      it('an error has the format of the service for HTTP without TLS', async () => {
        const response = await send(connect(proxy.port, '127.0.0.1'), `GET / HTTP/1.1\r\n${HOST}\r\n`);
        expectError(response, 400, 'bad_request');
      });
    }

    /** Cancels orders on one connection. @returns the statuses, or what curl says of an error */
    function cancelStatuses(paths: readonly string[]): Promise<string[]> {
      const args = [...toProxy(), '--write-out', '%{http_code}\n', '--request', 'DELETE', ...bearer()];
      return new Promise((resolve) => {
        execFile('curl', [...args, ...paths.map(urlOf)], (_error, stdout, stderr) => {
          resolve(`${stdout}${stderr}`.trim().split('\n'));
        });
      });
    }
  });
}

interface CurlResult {
  readonly code: number;
  readonly status: number;
  readonly headers: string;
  readonly body: Buffer;
}

function runCurl(args: readonly string[]): Promise<CurlResult> {
  const folder = mkdtempSync(join(tmpdir(), 'petstore-curl-'));
  const headerFile = join(folder, 'headers');
  return new Promise((resolve) => {
    execFile(
      'curl',
      ['--max-time', '90', '--dump-header', headerFile, ...args],
      { encoding: 'buffer', maxBuffer: 2 ** 28 },
      (error, body) => {
        const headers = existsSync(headerFile) ? readFileSync(headerFile, 'utf8') : '';
        rmSync(folder, { recursive: true, force: true });
        const status = Number(/^HTTP\/\S+ (\d+)/.exec(headers)?.[1] ?? 0);
        resolve({ code: error === null ? 0 : Number(error.code), status, headers, body });
      },
    );
  });
}

/** @returns all that is sent until the connection is closed */
async function send(socket: Socket, request: string): Promise<string> {
  let received = '';
  socket.on('data', (chunk: Buffer) => (received += chunk.toString()));
  const closed = new Promise((resolve) => socket.once('close', resolve));
  // A response that is complete may be followed by a reset.
  socket.on('error', () => undefined);
  socket.write(request);
  await closed;
  return received;
}

function expectError(response: string, status: number, code: string): void {
  const [head = '', body = ''] = response.split('\r\n\r\n');
  expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
  expect(head).toMatch(/^content-type: application\/json$/im);
  expect(JSON.parse(body)).toEqual({ code, message: expect.any(String) as string, status });
}
