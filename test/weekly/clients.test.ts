import { execFile, execFileSync, spawnSync } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { buildSync } from 'esbuild';
import type { Browser } from 'playwright-core';
import { listOrders } from '../helpers/api.js';
import { describeWithBrowser, startBrowser } from '../helpers/browser.js';
import { insertKey } from '../helpers/builders.js';
import { describeIf } from '../helpers/describe-if.js';
import { installOnce } from '../helpers/install-once.js';
import { listen } from '../helpers/listen.js';
import { ManualClock } from '../helpers/manual-clock.js';
import { RecordingProxy } from '../helpers/recording-proxy.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';
import { startTestService, type TestService } from '../helpers/test-service.js';

const ROOT = join(__dirname, '..', '..');
const EXAMPLES = join(ROOT, 'examples', 'clients');
const GENERATED = join(ROOT, 'examples', 'generated-clients');
const GENERATORS = join(__dirname, 'generators');
/** The npm packages of the clients, and a Node that has `context.source` in `JSON.parse`. */
const CLIENT_PACKAGES = join(__dirname, 'clients');
const FIRST_ID = 2n ** 53n;

interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

interface Program {
  /** In `examples/clients`, or a folder in `examples/generated-clients`. */
  readonly file: string;
  readonly isGenerated?: true;
  /** What must be installed, for the message, and whether it is. */
  readonly requirement: string;
  readonly isInstalled: () => boolean;
  /** The command that runs the file; it may compile it first. */
  readonly command: (file: string, folder: string) => string[];
}

const succeeds = (program: string, ...args: string[]): boolean => spawnSync(program, args).status === 0;

const hasNewNode = Number(process.versions.node.split('.')[0]) >= 22;
/** A Node whose `JSON.parse` has `context.source`: this one, or the one in {@link CLIENT_PACKAGES}, on linux-x64. */
const newNode = hasNewNode ? process.execPath : join(CLIENT_PACKAGES, 'node_modules', 'node-24', 'bin', 'node');
const NEW_NODE = {
  isInstalled: () => hasNewNode || (process.platform === 'linux' && process.arch === 'x64'),
  requirement: 'Node 22 or linux-x64',
};
const node = { ...NEW_NODE, command: withPackages(newNode) };
const python = { command: (file: string) => ['python3', file] };
const BROWSER = 'browser.html';
/** The programs that list again when the JSON has no end; the others fail. */
const REPEAT_TRUNCATED = ['axios.mjs', 'python-urllib.py', 'orders.go'];

const PROGRAMS: readonly Program[] = [
  // The oldest Node of the service will do.
  ...['fetch.mjs', 'axios.mjs'].map((file) => ({ ...node, file, command: withPackages(process.execPath) })),
  { ...node, file: 'got.mjs' },
  {
    file: 'curl.sh',
    requirement: 'curl and jq (Debian: apt install curl jq)',
    isInstalled: () => succeeds('curl', '--version') && succeeds('jq', '--version'),
    command: (file) => ['sh', file],
  },
  {
    ...python,
    file: 'python-requests.py',
    requirement: 'python3 and requests (Debian: apt install python3-requests)',
    isInstalled: () => succeeds('python3', '-c', 'import requests'),
  },
  {
    ...python,
    file: 'python-urllib.py',
    requirement: 'python3 (Debian: apt install python3)',
    isInstalled: () => succeeds('python3', '--version'),
  },
  {
    file: 'orders.go',
    requirement: 'go (Debian: apt install golang-go)',
    isInstalled: () => succeeds('go', 'version'),
    command: compileGo,
  },
  ...['openapi-ts', 'orval', 'swagger-typescript-api'].map((file) => ({
    ...NEW_NODE,
    file,
    isGenerated: true as const,
    command: generateAndCompile,
  })),
];

const folder = useTemporaryFolder('clients');
let page: Server;
let service: TestService;
let proxy: RecordingProxy;
/** The lines that a program prints for all orders. */
let listed: string[];

const pageOrigin = (): string => `http://127.0.0.1:${(page.address() as AddressInfo).port}`;

beforeAll(async () => {
  page = createServer((_req, res) =>
    res.setHeader('Content-Type', 'text/html').end(readFileSync(join(EXAMPLES, BROWSER))),
  );
  await listen(page);
  // A clock that stands still: a spent quota stays spent.
  service = await startTestService({ clock: new ManualClock(), environment: { CORS_ORIGINS: pageOrigin() } });
  // Each of the first ids shares its double with a neighbour.
  await service.db.query(
    `INSERT INTO orders (id, pet_id, quantity) SELECT id, -id, 1 FROM (
       SELECT ${FIRST_ID} + n FROM generate_series(0, 39) AS n
       UNION ALL SELECT 9223372036854775807 - n * 999999999937 FROM generate_series(0, 499) AS n
     ) AS ids (id)`,
  );
  const { rows } = await service.db.query<{ line: string }>(
    "SELECT id || ' ' || pet_id AS line FROM orders ORDER BY orders.id",
  );
  listed = rows.map(({ line }) => line);
  proxy = await RecordingProxy.start(service.baseUrl);
});
afterAll(async () => {
  await proxy.close();
  await service.stop();
  page.closeAllConnections();
  page.close();
});

it('examples/clients has these programs and no others', () => {
  const files = [...PROGRAMS.filter((each) => each.isGenerated !== true).map(({ file }) => file), BROWSER];
  expect(readdirSync(EXAMPLES).toSorted()).toEqual(files.toSorted());
});

for (const [index, { requirement, isInstalled, file, command, isGenerated }] of PROGRAMS.entries()) {
  describeIf(isInstalled() || process.env.CI === 'true', requirement)(`the client ${file}`, () => {
    let start: string[];
    beforeAll(() => {
      const own = join(folder, String(index));
      mkdirSync(own);
      cpSync(join(isGenerated === true ? GENERATED : EXAMPLES, file), join(own, file), { recursive: true });
      start = command(join(own, file), own);
    });

    const run: Run = (url, key, orderId) => {
      // Empty, because curl keeps its list in a file.
      const cwd = mkdtempSync(join(folder, 'run-'));
      return runProgram([...start, orderId], cwd, { PETSTORE_URL: url, PETSTORE_KEY: key });
    };
    testClient(index, run);
  });
}

describeWithBrowser('the client Browser', () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startBrowser();
  });
  afterAll(() => browser.close());

  testClient(PROGRAMS.length, async (url, key, orderId) => {
    const tab = await browser.newPage();
    await tab.goto(pageOrigin());
    await tab.fill('input[name=url]', url);
    await tab.fill('input[name=key]', key);
    await tab.fill('input[name=orderId]', orderId);
    await tab.click('button');
    const output = tab.locator('pre.done, pre.rejected, pre.failed');
    const text = (await output.textContent({ timeout: 120_000 })) ?? '';
    const result = await output.getAttribute('class');
    await tab.close();
    return result === 'failed'
      ? { code: 1, stdout: '', stderr: text }
      : { code: result === 'done' ? 0 : 1, stdout: text, stderr: '' };
  });
});

type Run = (url: string, key: string, orderId: string) => Promise<Outcome>;

function testClient(index: number, run: Run): void {
  const { file = BROWSER, isGenerated }: Partial<Program> = PROGRAMS[index] ?? {};
  // Different for each client, above 2^53 and not exact as a double.
  const orderId = String(FIRST_ID + BigInt(2 * index + 1));
  let key: string;
  beforeEach(async () => {
    await service.db.query("UPDATE orders SET status = 'pending', cancelled_at = NULL WHERE status <> 'pending'");
    ({ key } = await insertKey(service.db));
    proxy.reset();
  });
  // Some users write a slash at the end.
  const runHere = (apiKey = key, id = orderId): Promise<Outcome> => run(`${proxy.baseUrl}/v1/`, apiKey, id);

  it('lists with gzip and exact ids, gets 304, and cancels exactly its order', async () => {
    expect(await runHere()).toMatchObject({ code: 0, stdout: outputFor(orderId) });
    const [list, again, cancel, ...others] = proxy.take();
    expect(list).toMatchObject({ method: 'GET', status: 200, responseHeaders: { 'content-encoding': 'gzip' } });
    expect(again).toMatchObject({ status: 304, headers: { 'if-none-match': list?.responseHeaders.etag } });
    expect(cancel).toMatchObject({ method: 'DELETE', path: `/v1/store/orders/${orderId}`, status: 204 });
    expect(others).toEqual([]);
    expect(await cancelledIds()).toEqual([orderId]);
  });

  it('reports 429 when Retry-After is hours, without sending more requests', async () => {
    const { code, stdout, stderr } = await runHere(await insertSpentKey());
    expect([code === 0, stdout]).toEqual([false, '']);
    expect(stderr).toContain('rate_limit_exceeded');
    const [limited, ...others] = proxy.take();
    expect(Number(limited?.responseHeaders['retry-after'])).toBeGreaterThan(3_600);
    expect(others).toEqual([]);
  });

  it('fails and names the code when the cancel is rejected: 404, 409 and 401', async () => {
    const missing = '9007199254749999';
    expect(await runHere(key, missing)).toMatchObject({ code: 1, stdout: outputFor(missing, 'order_not_found') });
    await service.db.query("UPDATE orders SET status = 'shipped' WHERE id = $1", [orderId]);
    expect(await runHere()).toMatchObject({ code: 1, stdout: outputFor(orderId, 'order_already_shipped') });
    const rejected = await runHere('pst_unknown');
    expect([rejected.code === 0, rejected.stdout]).toEqual([false, '']);
  });

  it.each(['break', 'truncate'] as const)('never uses a list that is cut (%s)', async (kind) => {
    const repeats = kind === 'break' ? isGenerated !== true : REPEAT_TRUNCATED.includes(file);
    proxy.disturbNext('GET', { kind });
    const { code, stdout } = await runHere();
    expect([code === 0, stdout]).toEqual([repeats, repeats ? outputFor(orderId) : '']);
    expect(proxy.take()[0]?.status).toBe(200);
  });

  // The generated clients repeat nothing.
  if (isGenerated === true) {
    return;
  }

  it('waits for Retry-After after 429, then succeeds', async () => {
    proxy.disturbNext('GET', { kind: 'limit', spentKey: await insertSpentKey() });
    expect(await runHere()).toMatchObject({ code: 0, stdout: outputFor(orderId) });
    const [limited, list] = proxy.take();
    expect([limited?.status, list?.status]).toEqual([429, 200]);
    // Only a lower bound, which a slow machine does not touch. Timers may fire a millisecond early.
    expect(list!.receivedAt - limited!.respondedAt).toBeGreaterThan(990);
  });

  it('repeats a cancel whose response is lost, and understands order_already_cancelled', async () => {
    proxy.disturbNext('DELETE', { kind: 'lose' });
    expect(await runHere()).toMatchObject({ code: 0, stdout: outputFor(orderId) });
    expect(proxy.take().map(({ status }) => status)).toEqual([200, 304, 204, 409]);
  });
}

/** What a program prints that lists, lists again with the `ETag`, and cancels an order. */
function outputFor(orderId: string, code = 'cancelled'): string {
  return [...listed, 'unchanged', `${orderId}: ${code}`, ''].join('\n');
}

async function cancelledIds(): Promise<string[]> {
  const { rows } = await service.db.query<{ id: string }>("SELECT id FROM orders WHERE status = 'cancelled'");
  return rows.map(({ id }) => id);
}

/** @returns a key whose quota of the day is used up */
async function insertSpentKey(): Promise<string> {
  const { key } = await insertKey(service.db, { requests_per_day: 1 });
  await (await listOrders(service.baseUrl, key)).text();
  return key;
}

/** Runs a program in a folder, with no environment variables except the given ones and PATH. */
function runProgram(
  [name = '', ...args]: readonly string[],
  cwd: string,
  environment: Readonly<Record<string, string>>,
): Promise<Outcome> {
  const env = { PATH: process.env.PATH, ...environment };
  return new Promise((resolve) => {
    execFile(name, args, { cwd, env, timeout: 120_000, maxBuffer: 2 ** 24 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? -1), stdout, stderr });
    });
  });
}

function withPackages(program: string): Program['command'] {
  return (file, folder) => {
    installOnce(CLIENT_PACKAGES);
    symlinkSync(join(CLIENT_PACKAGES, 'node_modules'), join(folder, 'node_modules'));
    return [program, file];
  };
}

function compileGo(file: string, folder: string): string[] {
  const binary = join(folder, 'orders');
  const environment = { GO111MODULE: 'off', CGO_ENABLED: '0', HOME: folder, GOCACHE: join(folder, 'cache') };
  execFileSync('go', ['build', '-o', binary, file], { cwd: folder, env: { PATH: process.env.PATH, ...environment } });
  return [binary];
}

/** Generates the client, and compiles it with `tsc --strict`. */
function generateAndCompile(source: string, folder: string): string[] {
  [CLIENT_PACKAGES, GENERATORS].forEach(installOnce);
  symlinkSync(join(GENERATORS, 'node_modules'), join(source, 'node_modules'));
  copyFileSync(join(ROOT, 'openapi.json'), join(source, 'openapi.json'));
  generate(source);
  expect(errorsOfCompiler(source)).toBe('');
  const outfile = join(folder, 'orders.mjs');
  const options = { bundle: true, platform: 'node', format: 'esm', target: 'node22' } as const;
  buildSync({ ...options, entryPoints: [join(source, 'orders.ts')], outfile });
  return [newNode, outfile];
}

/** Runs the command that the first line of the generator's configuration names. */
function generate(cwd: string): void {
  const [, command = ''] = /^\/\/ (?:npx|node) (?:--package \S+ )*([^;\n]+)/.exec(configurationOf(cwd)) ?? [];
  const [program = '', ...args] = command.split(' ');
  const isScript = program.endsWith('.mjs');
  const file = isScript ? newNode : join(GENERATORS, 'node_modules', '.bin', program.replace(/@[\d.]+$/, ''));
  const environment = { PATH: process.env.PATH, HOME: cwd };
  execFileSync(file, isScript ? [program] : args, { cwd, stdio: ['ignore', 'ignore', 'inherit'], env: environment });
}

function configurationOf(folder: string): string {
  return readFileSync(join(folder, readdirSync(folder).find((file) => file.endsWith('.mjs')) ?? ''), 'utf8');
}

/** What `tsc --strict` prints. */
function errorsOfCompiler(cwd: string): string {
  const compilerOptions = {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    target: 'ES2023',
    lib: ['ES2023', 'DOM', 'DOM.Iterable'],
    module: 'ESNext',
    moduleResolution: 'bundler',
    types: ['node'],
    typeRoots: [join(ROOT, 'node_modules', '@types')],
  };
  writeFileSync(join(cwd, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['orders.ts'] }));
  const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
  const { status, stdout } = spawnSync(process.execPath, [tsc, '-p', cwd], { encoding: 'utf8' });
  return status === 0 ? stdout : `exit code ${status}: ${stdout}`;
}
