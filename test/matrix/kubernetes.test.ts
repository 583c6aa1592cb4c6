import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { insertKey } from '../helpers/builders.js';
import { describeIf } from '../helpers/describe-if.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';

const FOLDER = join(__dirname, '..', '..', 'deploy', 'kubernetes');
const SCHEMAS = join(__dirname, 'kubernetes');

const hasKubectl = spawnSync('kubectl', ['version', '--client']).status === 0;

describeIf(hasKubectl, 'kubectl (Debian: apt install kubernetes-client)')('the Kubernetes objects', () => {
  beforeAll(() => {
    if (!existsSync(join(SCHEMAS, 'node_modules'))) {
      execFileSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: SCHEMAS });
    }
  });

  it.each(['base', 'migrate', 'monitoring', 'example', 'example/migrate'])(
    'of %s have only fields and values that the API knows',
    (folder) => {
      expect(errorsIn(build(folder))).toBe('');
    },
  );

  it('are checked: a wrong value and an unknown field are found', () => {
    const objects = build('example');
    expect(errorsIn(objects.replace('containerPort: 3000', 'containerPort: http'))).toContain('must be integer');
    expect(errorsIn(objects.replace('readOnlyRootFilesystem', 'readOnlyFilesystem'))).toContain('known properties');
  });

  it('of the example use its images, settings and narrower network policy', () => {
    const objects = build('example');
    expect(objects).toContain('image: registry.example.com/petstore-orders:1.0.0');
    expect(objects).toContain('PUBLIC_BASE_URL: https://api.example.com/v1');
    expect(objects).toContain('SHUTDOWN_DELAY_SECONDS: "10"');
    expect(objects).toContain('kubernetes.io/metadata.name: ingress-nginx');
  });
});

/** The objects of a kustomization, as YAML documents. */
function build(folder: string): string {
  const copy = mkdtempSync(join(tmpdir(), 'petstore-kubernetes-'));
  try {
    cpSync(FOLDER, copy, { recursive: true });
    if (!/Kustomize Version: v[4-9]/.test(execFileSync('kubectl', ['version', '--client'], { encoding: 'utf8' }))) {
      useOldNames(copy);
    }
    return execFileSync('kubectl', ['kustomize', join(copy, folder)], { encoding: 'utf8' });
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

/** Debian's kubectl 1.20 has kustomize 2.0, in which folders are `bases` and patches `patchesStrategicMerge`. */
function useOldNames(folder: string): void {
  for (const entry of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (entry.endsWith('kustomization.yaml')) {
      const file = join(folder, entry);
      const text = readFileSync(file, 'utf8');
      const folders = text.match(/^ {2}- (?:\.\.\/)+\w+$/gm) ?? [];
      writeFileSync(
        file,
        folders
          .reduce((rest, line) => rest.replace(`${line}\n`, ''), text)
          .replace(/^resources:\n(?! )/m, '')
          .replace(/^patches:\n {2}- path: (.*)$/m, 'patchesStrategicMerge:\n  - $1')
          .concat(folders.length > 0 ? `bases:\n${folders.join('\n')}\n` : ''),
      );
    }
  }
}

function errorsIn(objects: string): string {
  const { stdout, stderr, status } = spawnSync(process.execPath, [join(SCHEMAS, 'validate.mjs')], {
    input: objects,
    encoding: 'utf8',
  });
  if (status === 0 || stdout !== '') {
    return stdout;
  }
  throw new Error(stderr);
}

describe('a rollout with the settings of the Deployment', () => {
  /** Proxies stop sending to a pod this long after its SIGTERM. */
  const ENDPOINT_REMOVED_AFTER_MS = 3_000;
  const CLIENTS = 8;

  let database: TestDatabase;
  let pods: ServiceProcess[] = [];
  let proxy: EndpointProxy;

  beforeAll(async () => {
    database = await createTestDatabase();
    await database.db.query('INSERT INTO orders (pet_id, quantity) SELECT 1, 1 FROM generate_series(1, 100000)');
    pods = await Promise.all([1, 2].map(startPod));
    proxy = await EndpointProxy.start(pods.map(({ port }) => port));
  });
  afterAll(async () => {
    proxy.close();
    await Promise.all(pods.map((pod) => pod.stop()));
    await database.drop();
  });

  function startPod(): Promise<ServiceProcess> {
    const { configMapGenerator } = load(readFileSync(join(FOLDER, 'base', 'kustomization.yaml'), 'utf8')) as {
      configMapGenerator: readonly [{ literals: readonly string[] }];
    };
    const settings = configMapGenerator[0].literals.map((literal) => literal.split('=', 2) as [string, string]);
    return ServiceProcess.start({ ...Object.fromEntries(settings), DATABASE_URL: database.url });
  }

  it('loses no response while every pod is replaced', async () => {
    const { key } = await insertKey(database.db, { requests_per_minute: 1_000_000, requests_per_day: 10_000_000 });
    const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS });
    const responses: string[] = [];
    let isRolling = true;
    let next = 0;
    const client = async (): Promise<void> => {
      while (isRolling) {
        const [method, path] = ++next % 50 === 0 ? ['GET', ''] : ['DELETE', `/${next}`];
        responses.push(await send(agent, proxy.port, { method, path: `/v1/store/orders${path}`, key }));
      }
    };
    const clients = Promise.all(Array.from({ length: CLIENTS }, client));

    let sentMeanwhile = 0;
    try {
      const old = pods;
      pods = await Promise.all(old.map(startPod));
      proxy.endpoints = [...old, ...pods].map(({ port }) => port);
      const exits = old.map((pod) => pod.stop());
      const stoppedAt = performance.now();
      await waitFor(() => performance.now() - stoppedAt > ENDPOINT_REMOVED_AFTER_MS, 'the proxies learn of it');
      sentMeanwhile = responses.length;
      proxy.endpoints = pods.map(({ port }) => port);
      expect(await Promise.all(exits)).toEqual([0, 0]);
      await waitFor(() => responses.length > sentMeanwhile + 100, 'the new pods respond');
    } finally {
      isRolling = false;
      await clients;
    }
    agent.destroy();

    expect(sentMeanwhile).toBeGreaterThan(100);
    expect(responses.filter((response) => response !== 'complete')).toEqual([]);
  });
});

/** Connects each client to one of the endpoints, as a Service does. */
class EndpointProxy {
  #next = 0;

  private constructor(
    private readonly server: Server,
    public endpoints: readonly number[],
  ) {}

  static async start(endpoints: readonly number[]): Promise<EndpointProxy> {
    const server = createServer();
    const proxy = new EndpointProxy(server, endpoints);
    server.on('connection', (client) => {
      const upstream = connect(proxy.endpoints[proxy.#next++ % proxy.endpoints.length]!, '127.0.0.1');
      client.pipe(upstream).pipe(client);
      client.on('error', () => upstream.destroy());
      upstream.on('error', () => client.destroy());
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  close(): void {
    this.server.close();
  }
}

/** @returns `complete` for a complete 200 or 204, otherwise what happened */
function send(
  agent: Agent,
  port: number,
  { method, path, key }: { method?: string; path: string; key: string },
): Promise<string> {
  return new Promise((resolve) => {
    const headers = { authorization: `Bearer ${key}` };
    const req = request({ host: '127.0.0.1', port, method, path, headers, agent }, (res) => {
      res.resume();
      res.once('close', () => {
        const isOk = res.complete && (res.statusCode === 200 || res.statusCode === 204);
        resolve(isOk ? 'complete' : `${method} ${path}: ${res.statusCode}, complete: ${res.complete}`);
      });
    });
    req.once('error', (error) => {
      resolve(`${method} ${path}: ${error.message}`);
    });
    req.end();
  });
}
