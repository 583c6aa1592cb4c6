import { type ChildProcess, execFile, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { connect } from 'node:http2';
import https from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { gunzipSync } from 'node:zlib';
import { insertKey } from '../helpers/builders.js';
import { describeIf } from '../helpers/describe-if.js';
import { freePort } from '../helpers/free-port.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';

jest.setTimeout(180_000);

const ROOT = join(__dirname, '..', '..');
/** So many orders that the list exceeds the buffers between service and client. */
const ORDERS = 1_000_000;
const UPSTREAMS = 3;

interface ProxyKind {
  readonly name: 'nginx' | 'HAProxy' | 'Caddy';
  /** Versions of HTTP in which Debian's version tells clients that a response was cut; docs/reliability.md has the others. */
  readonly showsCut: readonly string[];
  /** What the page of the proxy says about `SHUTDOWN_DELAY_SECONDS`. */
  readonly shutdownDelay: string;
  /** @returns the command that runs the shipped configuration with other ports and files */
  readonly command: (folder: string, ports: { listen: number; upstreams: readonly number[] }) => string[];
}

const shipped = (name: string): string => readFileSync(join(ROOT, 'deploy', 'proxies', name), 'utf8');

/** Replaces the ports of the three processes. */
function withUpstreams(config: string, upstreams: readonly number[]): string {
  return upstreams.reduce(
    (text, port, index) => text.replaceAll(`127.0.0.1:${3001 + index}`, `127.0.0.1:${port}`),
    config,
  );
}

const KINDS: readonly ProxyKind[] = [
  {
    name: 'nginx',
    showsCut: ['HTTP/1.1', 'HTTP/2'],
    shutdownDelay: '0',
    command: (folder, { listen, upstreams }) => {
      const site = withUpstreams(shipped('nginx.conf'), upstreams)
        .replace('listen 443', `listen 127.0.0.1:${listen}`)
        .replaceAll('/etc/ssl/api.example.com', folder);
      writeFileSync(join(folder, 'site.conf'), site);
      const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
        (name) => `${name}_temp_path ${folder}/${name};`,
      );
      writeFileSync(
        join(folder, 'nginx.conf'),
        `daemon off; pid ${folder}/nginx.pid; error_log stderr; events {}\n` +
          `http { access_log off; ${temporary.join(' ')} include ${folder}/site.conf; }\n`,
      );
      return ['nginx', '-e', 'stderr', '-p', folder, '-c', join(folder, 'nginx.conf')];
    },
  },
  {
    name: 'HAProxy',
    showsCut: ['HTTP/1.1'],
    shutdownDelay: '5',
    command: (folder, { listen, upstreams }) => {
      const config = withUpstreams(shipped('haproxy.cfg'), upstreams)
        .replace('bind :443', `bind 127.0.0.1:${listen}`)
        .replaceAll('/etc/ssl/api.example.com', folder);
      writeFileSync(join(folder, 'haproxy.cfg'), config);
      return ['haproxy', '-db', '-f', join(folder, 'haproxy.cfg')];
    },
  },
  {
    name: 'Caddy',
    showsCut: [],
    shutdownDelay: '5',
    command: (folder, { listen, upstreams }) => {
      const site = withUpstreams(shipped('Caddyfile'), upstreams).replace(
        'api.example.com {',
        `https://api.example.com:${listen} {\n\ttls ${folder}/cert.pem ${folder}/key.pem`,
      );
      writeFileSync(join(folder, 'Caddyfile'), `{\n\tadmin off\n\tauto_https disable_redirects\n}\n\n${site}`);
      return ['caddy', 'run', '--adapter', 'caddyfile', '--config', join(folder, 'Caddyfile')];
    },
  },
];

const isInstalled = (program: string): boolean => spawnSync('which', [program]).status === 0;

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

for (const kind of KINDS) {
  const describeProxy = describeIf(
    isInstalled(kind.name.toLowerCase()),
    `${kind.name} (Debian: apt install ${kind.name === 'nginx' ? 'nginx-light' : kind.name.toLowerCase()})`,
  );
  describeProxy(`behind ${kind.name} with deploy/proxies/`, () => {
    let folder: string;
    let services: ServiceProcess[];
    let ports: number[];
    let listen: number;
    let proxy: ChildProcess;
    let log = '';

    const startService = (port: number): Promise<ServiceProcess> =>
      ServiceProcess.start({
        DATABASE_URL: database.url,
        TRUST_PROXY: '1',
        PORT: String(port),
        SHUTDOWN_DELAY_SECONDS: kind.shutdownDelay,
      });

    beforeAll(async () => {
      folder = mkdtempSync(join(tmpdir(), 'petstore-proxy-'));
      chmodSync(folder, 0o755);
      makeCertificate(folder);
      ports = [];
      while (ports.length < UPSTREAMS) {
        ports.push(await freePort());
      }
      services = await Promise.all(ports.map(startService));
      listen = await freePort();
      const [program = '', ...args] = kind.command(folder, { listen, upstreams: ports });
      proxy = spawn(program, args, { env: { ...process.env, HOME: folder, XDG_DATA_HOME: folder } });
      for (const stream of [proxy.stdout, proxy.stderr]) {
        stream?.on('data', (chunk: Buffer) => (log += chunk.toString()));
      }
      await waitFor(
        async () => (await curl('/health/ready')).status === 200,
        () => `${kind.name} responds: ${log}`,
        {
          withinMs: 20_000,
        },
      );
    });
    afterAll(async () => {
      if (proxy.exitCode === null) {
        const exited = new Promise((resolve) => proxy.once('exit', resolve));
        proxy.kill(kind.name === 'nginx' ? 'SIGQUIT' : 'SIGTERM');
        await exited;
      }
      await Promise.all(services.map((service) => service.stop()));
      rmSync(folder, { recursive: true, force: true });
    });

    /** Sends a request through the proxy with curl; `code` is curl's exit code. */
    function curl(path: string, ...args: string[]): Promise<CurlResult> {
      return runCurl([
        ...['--cacert', join(folder, 'cert.pem'), '--resolve', `api.example.com:${listen}:127.0.0.1`],
        ...[...args, `https://api.example.com:${listen}${path}`],
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
      const list = await startList({ version, encoding, port: listen, key });
      const index = await indexOfBusy(services);
      await services[index]!.stop('SIGKILL');
      const { isComplete, body } = await list.end();
      services[index] = await startService(ports[index]!);
      expect(looksWhole(body, encoding)).toBe(false);
      expect(isComplete && kind.showsCut.includes(version)).toBe(false);
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
        ...['--silent', '--show-error', '--cacert', join(folder, 'cert.pem')],
        ...['--resolve', `api.example.com:${listen}:127.0.0.1`, '--write-out', '%{http_code}\n', '--request', 'DELETE'],
        ...[...bearer(), ...paths.map((path) => `https://api.example.com:${listen}${path}`)],
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

function makeCertificate(folder: string): void {
  const [key, certificate] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
  execFileSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'],
      ...['-keyout', key, '-out', certificate, '-subj', '/CN=api.example.com'],
      ...['-addext', 'subjectAltName=DNS:api.example.com'],
    ],
    { stdio: 'ignore' },
  );
  writeFileSync(join(folder, 'cert-and-key.pem'), readFileSync(certificate, 'utf8') + readFileSync(key, 'utf8'));
}
