import { execFile, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { connect } from 'node:http2';
import https from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { gunzipSync } from 'node:zlib';
import { insertKey } from '../helpers/builders.js';
import { freePort } from '../helpers/free-port.js';
import { describeWithProxy, ProxyProcess, SHIPPED_PROXIES } from '../helpers/shipped-proxies.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';

jest.setTimeout(180_000);

/** So many orders that the list exceeds the buffers between service and client. */
const ORDERS = 1_000_000;
const UPSTREAMS = 3;

/** Versions of HTTP in which Debian's version tells clients that a response was cut; docs/records/ has the others. */
const SHOWS_CUT: Readonly<Record<string, readonly string[]>> = { nginx: ['HTTP/1.1', 'HTTP/2'], HAProxy: ['HTTP/1.1'] };

let database: TestDatabase;
let key: string;
/** Orders up to this id have been cancelled. */
let cancelled = 0;
beforeAll(async () => {
  database = await createTestDatabase();
  await database.db.query(
    `INSERT INTO orders (id, pet_id, quantity)
     SELECT n, 9007199254740993 + (random() * 1e15)::bigint, 1 + (random() * 1e6)::int FROM generate_series(1, ${ORDERS}) AS n`,
  );
  ({ key } = await insertKey(database.db, { requests_per_minute: 1_000_000, requests_per_day: 10_000_000 }));
});
afterAll(() => database.drop());

for (const kind of SHIPPED_PROXIES.filter(({ tls }) => tls)) {
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
      ports = [];
      while (ports.length < UPSTREAMS) {
        ports.push(await freePort());
      }
      services = await Promise.all(ports.map(startService));
      proxy = await ProxyProcess.start(kind, ports);
      await waitFor(
        async () => (await curl('/health/ready')).status === 200,
        () => `${kind.name} responds: ${proxy.log}`,
        {
          withinMs: 20_000,
        },
      );
    });
    afterAll(async () => {
      await proxy.stop();
      await Promise.all(services.map((service) => service.stop()));
    });

    /** Sends a request through the proxy with curl; `code` is curl's exit code. */
    function curl(path: string, ...args: string[]): Promise<CurlResult> {
      return runCurl([
        ...['--cacert', proxy.certificate, '--resolve', `api.example.com:${proxy.port}:127.0.0.1`],
        ...[...args, `https://api.example.com:${proxy.port}${path}`],
      ]);
    }
    const bearer = (): string[] => ['-H', `Authorization: Bearer ${key}`];
    const list = (...args: string[]): Promise<CurlResult> => curl('/v1/store/orders', ...bearer(), ...args);

    it.each(['--http1.1', '--http2'])('sends the whole list, compressed only by the service (%s)', async (version) => {
      const compressed = await list(version, '-H', 'Accept-Encoding: gzip');
      const plain = await list(version);
      expect([compressed.code, compressed.status, plain.code, plain.status]).toEqual([0, 200, 0, 200]);
      expect(compressed.headers).toMatch(/^content-encoding: gzip/im);
      expect(plain.headers).not.toMatch(/^content-encoding:/im);
      expect(gunzipSync(compressed.body).equals(plain.body)).toBe(true);
      const { rows } = await database.db.query<{ pets: string }>('SELECT sum(pet_id)::text AS pets FROM orders');
      const pets = plain.body.toString().matchAll(/"petId":(\d+)/g);
      expect(String(Array.from(pets, ([, id]) => BigInt(id ?? '')).reduce((sum, id) => sum + id, 0n))).toBe(
        rows[0]?.pets,
      );
    });

    it('passes conditional requests, request ids and trace contexts', async () => {
      const { headers } = await list();
      const etag = /^etag: *(\S+)/im.exec(headers)?.[1] ?? '';
      const unchanged = await list('-H', `If-None-Match: ${etag}`, '-H', 'X-Request-Id: from-the-client');
      expect([unchanged.status, unchanged.body.length]).toEqual([304, 0]);
      expect(unchanged.headers).toMatch(/^x-request-id: from-the-client/im);
      expect(unchanged.headers).toContain(etag);
    });

    it('lets the service see the address of the client and no forged one', async () => {
      for (let count = 0; count < 6; count++) {
        await curl('/v1/store/orders', '--interface', '127.0.0.3', '-H', 'X-Forwarded-For: 203.0.113.9');
      }
      /** Asked without the proxy, so that the header has the address. Each process counts in its own memory. */
      const used = async (address: string): Promise<number> => {
        const counts = services.map(async ({ baseUrl }) => {
          const response = await fetch(`${baseUrl}/v1/store/orders`, { headers: { 'X-Forwarded-For': address } });
          return 59 - Number(response.headers.get('x-ratelimit-remaining'));
        });
        return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
      };
      expect(await used('203.0.113.9')).toBe(0);
      expect(await used('127.0.0.3')).toBeGreaterThan(0);
    });

    it.each([
      ['HTTP/1.1', 'identity'],
      ['HTTP/1.1', 'gzip'],
      ['HTTP/2', 'identity'],
      ['HTTP/2', 'gzip'],
    ])('never makes a list look whole whose process was killed (%s, %s)', async (version, encoding) => {
      const list = await startList({ version, encoding, port: proxy.port, key });
      const index = await indexOfBusy(services);
      await services[index]!.stop('SIGKILL');
      const { isComplete, body } = await list.end();
      services[index] = await startService(ports[index]!);
      expect(looksWhole(body, encoding)).toBe(false);
      expect(isComplete && SHOWS_CUT[kind.name]?.includes(version) === true).toBe(false);
      await waitFor(async () => (await curl('/health/ready')).status === 200, 'the proxy responds');
    });

    it('loses no request while the processes are restarted one after the other', async () => {
      const results: string[] = [];
      let isRolling = true;
      const client = async (): Promise<void> => {
        while (isRolling) {
          const ids = Array.from({ length: 20 }, () => ++cancelled);
          // Twenty cancels on one connection.
          const { stdout } = await curlStatuses(ids.map((id) => `/v1/store/orders/${id}`));
          results.push(...stdout);
        }
      };
      const clients = Promise.all([client(), client(), client()]);
      try {
        for (const [index, service] of services.entries()) {
          const before = results.length;
          expect(await service.stop()).toBe(0);
          services[index] = await startService(ports[index]!);
          await waitFor(() => results.length > before + 100, 'requests are answered');
          // The health checks of the proxy find the new process.
          await waitFor(
            async () =>
              (await Promise.all([1, 2, 3].map(() => curl('/health/ready')))).every(({ status }) => status === 200),
            'ready',
          );
        }
      } finally {
        isRolling = false;
        await clients;
      }
      expect(results.length).toBeGreaterThan(300);
      expect(results.filter((status) => status !== '204')).toEqual([]);
    });

    it('returns errors in the format of the service when no process runs', async () => {
      await Promise.all(services.map((service) => service.stop('SIGKILL')));
      const { status, headers, body } = await list();
      expect([502, 503, 504]).toContain(status);
      expect(headers).toMatch(/^content-type: application\/json/im);
      expect(headers).toMatch(/^retry-after: 1/im);
      expect(JSON.parse(body.toString())).toMatchObject({ code: 'service_unavailable', status });
    });

    /** Cancels orders on one connection. @returns the statuses */
    function curlStatuses(paths: readonly string[]): Promise<{ stdout: string[] }> {
      const args = [
        ...['--silent', '--show-error', '--cacert', proxy.certificate],
        ...[
          '--resolve',
          `api.example.com:${proxy.port}:127.0.0.1`,
          '--write-out',
          '%{http_code}\n',
          '--request',
          'DELETE',
        ],
        ...[...bearer(), ...paths.map((path) => `https://api.example.com:${proxy.port}${path}`)],
      ];
      return new Promise((resolve) => {
        execFile('curl', args, (_error, stdout, stderr) => {
          resolve({ stdout: `${stdout}${stderr}`.trim().split('\n') });
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
      ['--silent', '--max-time', '90', '--dump-header', headerFile, ...args],
      { encoding: 'buffer', maxBuffer: 2 ** 28 },
      (error, body) => {
        const headers = readIfPresent(headerFile);
        rmSync(folder, { recursive: true, force: true });
        const status = Number(/^HTTP\/\S+ (\d+)/.exec(headers)?.[1] ?? 0);
        resolve({ code: error === null ? 0 : Number(error.code), status, headers, body });
      },
    );
  });
}

function readIfPresent(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

interface StartedList {
  /** Reads the rest. `isComplete`: whether HTTP says that the response is complete. */
  end(): Promise<{ isComplete: boolean; body: Buffer }>;
}

function looksWhole(body: Buffer, encoding: string): boolean {
  try {
    return (encoding === 'gzip' ? gunzipSync(body) : body).subarray(-1).toString() === ']';
  } catch {
    return false;
  }
}

/** Reads the beginning of a list and no more, so that the service cannot send all of it. */
async function startList(options: {
  version: string;
  encoding: string;
  port: number;
  key: string;
}): Promise<StartedList> {
  const headers = { authorization: `Bearer ${options.key}`, 'accept-encoding': options.encoding };
  const tls = { host: '127.0.0.1', port: options.port, servername: 'api.example.com', rejectUnauthorized: false };
  if (options.version === 'HTTP/1.1') {
    const res = await new Promise<IncomingMessage>((resolve, reject) => {
      https
        .get({ ...tls, path: '/v1/store/orders', headers: { ...headers, host: 'api.example.com' } }, resolve)
        .once('error', reject);
    });
    await once(res, 'readable');
    return {
      end: async () => {
        const body = await rest(res);
        return { isComplete: res.complete, body };
      },
    };
  }
  const session = connect(`https://api.example.com:${options.port}`, {
    ...tls,
    settings: { initialWindowSize: 65_535 },
  });
  session.on('error', () => undefined);
  const stream = session.request({ ...headers, ':path': '/v1/store/orders' });
  stream.on('error', () => undefined);
  await once(stream, 'readable');
  let hasEnded = false;
  stream.once('end', () => (hasEnded = true));
  return {
    end: async () => {
      const body = await rest(stream);
      session.destroy();
      return { isComplete: hasEnded && stream.rstCode === 0, body };
    },
  };
}

/** Everything that arrives until the stream closes, whether or not it ends properly. */
async function rest(stream: Readable): Promise<Buffer> {
  const chunks: Buffer[] = [];
  stream.on('error', () => undefined);
  stream.on('data', (chunk: Buffer) => chunks.push(chunk));
  // Not `once`, which rejects when the stream fails.
  await new Promise((resolve) => stream.once('close', resolve));
  return Buffer.concat(chunks);
}

/** The process that is sending a list: it has a connection with unsent data. */
async function indexOfBusy(services: readonly ServiceProcess[]): Promise<number> {
  let index = -1;
  await waitFor(() => {
    index = services.findIndex(({ port }) =>
      execFileSync('ss', ['-Htn', 'state', 'established', `sport = :${port}`], { encoding: 'utf8' })
        .split('\n')
        .some((line) => Number(line.trim().split(/\s+/)[1] ?? 0) > 0),
    );
    return index !== -1;
  }, 'a process sends a list');
  return index;
}
