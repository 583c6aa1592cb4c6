import { execFileSync, spawnSync } from 'node:child_process';
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
import { describeWithBrowser, startBrowser } from '../helpers/browser.js';
import {
  CLIENT_PACKAGES,
  ClientService,
  installOnce,
  NEW_NODE,
  newNode,
  type Outcome,
  runProgram,
} from '../helpers/client-programs.js';
import { describeIf } from '../helpers/describe-if.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';

const ROOT = join(__dirname, '..', '..');
const EXAMPLES = join(ROOT, 'examples', 'clients');
const GENERATED = join(ROOT, 'examples', 'generated-clients');
const GENERATORS = join(__dirname, 'generators');

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

const node = { ...NEW_NODE, command: withPackages(newNode()) };
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
let clients: ClientService;
let page: Server;

const pageOrigin = (): string => `http://127.0.0.1:${(page.address() as AddressInfo).port}`;

beforeAll(async () => {
  page = createServer((_req, res) =>
    res.setHeader('Content-Type', 'text/html').end(readFileSync(join(EXAMPLES, BROWSER))),
  );
  await new Promise<void>((resolve) => page.listen(0, '127.0.0.1', resolve));
  clients = await ClientService.start({ CORS_ORIGINS: pageOrigin() });
});
afterAll(async () => {
  await clients.stop();
  page.closeAllConnections();
  page.close();
});

it('examples/clients has these programs and no others', () => {
  const files = [...PROGRAMS.filter((each) => each.isGenerated !== true).map(({ file }) => file), BROWSER];
  expect(readdirSync(EXAMPLES).toSorted()).toEqual(files.toSorted());
});

it('the programs name the versions of the packages that are tested here', () => {
  const files = ['axios.mjs', 'got.mjs'].map((file) => readFileSync(join(EXAMPLES, file), 'utf8'));
  const configurations = readdirSync(GENERATED).map((generator) => configurationOf(join(GENERATED, generator)));
  const named = [...files, ...configurations].flatMap((text) => text.match(/(@[\w-]+\/)?[\w-]+@\d[\d.]+/g));
  const tested = [CLIENT_PACKAGES, GENERATORS].flatMap((packages) => {
    const manifest = readFileSync(join(packages, 'package.json'), 'utf8');
    const { dependencies } = JSON.parse(manifest) as { dependencies: Record<string, string> };
    return Object.entries(dependencies).map(([name, version]) => `${name}@${version}`);
  });
  expect(named).not.toContain(null);
  expect(tested).toEqual(expect.arrayContaining(named));
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
    if (isGenerated === true) {
      testEveryClient(index, run);
      return;
    }
    testClient(index, run);

    it('fails without a repetition when the URL is not one of HTTP', async () => {
      const { code, stdout, stderr } = await run('ftx://127.0.0.1/v1', 'pst_key', '1');
      expect([code === 0, stdout]).toEqual([false, '']);
      // The last two are of got and requests.
      const messages =
        /^(?:Error: |[\d/: ]+)?PETSTORE_URL must|^curl: \(1\)|^RequestError: Unsupported|^requests\.\w+\.InvalidSchema/gm;
      expect(stderr.match(messages)).toHaveLength(1);
    });
  });
}

describeIf(succeeds('curl', '--version') || process.env.CI === 'true', 'curl (Debian: apt install curl)')(
  'copies of curl.sh that start together',
  () => {
    it('wait for different times, and report nothing but what curl says', async () => {
      // Prints for how long it would wait.
      const bin = mkdtempSync(join(folder, 'bin-'));
      writeFileSync(join(bin, 'sleep'), '#!/bin/sh\necho "sleep $1" >&2\n', { mode: 0o755 });
      const environment = { PATH: `${bin}:${process.env.PATH}`, PETSTORE_KEY: 'pst_key' };
      const runs = await Promise.all(
        Array.from({ length: 3 }, () =>
          runProgram(['sh', join(EXAMPLES, 'curl.sh')], mkdtempSync(join(folder, 'run-')), {
            ...environment,
            PETSTORE_URL: 'http://127.0.0.1:1/v1',
          }),
        ),
      );
      expect(new Set(runs.flatMap(({ stderr }) => stderr.match(/^sleep .*/gm))).size).toBe(3 * 4);
      for (const { stderr } of runs) {
        expect(stderr.replace(/^sleep .*\n/gm, '')).toMatch(/^(?:curl: \(7\) .*\n){5}$/);
      }
    });
  },
);

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

interface Client {
  readonly orderId: () => string;
  run(key?: string, orderId?: string): Promise<Outcome>;
}

/** What each client does, also those that repeat no request. */
function testEveryClient(index: number, run: Run): Client {
  let key: string;
  const orderId = (): string => clients.idOf(index);
  beforeEach(async () => {
    key = await clients.reset();
  });
  // Some users write a slash at the end.
  const runHere = (apiKey = key, id = orderId()): Promise<Outcome> => run(`${clients.proxy.baseUrl}/v1/`, apiKey, id);

  it('lists with gzip and exact ids, gets 304, and cancels exactly its order', async () => {
    expect(await runHere()).toMatchObject({ code: 0, stdout: clients.outputFor(orderId()) });
    const [list, again, cancel, ...others] = clients.proxy.take();
    expect(list).toMatchObject({ method: 'GET', status: 200, responseHeaders: { 'content-encoding': 'gzip' } });
    expect(again).toMatchObject({ status: 304, headers: { 'if-none-match': list?.responseHeaders.etag } });
    expect(cancel).toMatchObject({ method: 'DELETE', path: `/v1/store/orders/${orderId()}`, status: 204 });
    expect(others).toEqual([]);
    expect(await clients.cancelledIds()).toEqual([orderId()]);
  });

  it('reports 429 when Retry-After is hours, without sending more requests', async () => {
    const { code, stdout, stderr } = await runHere(await clients.insertSpentKey());
    expect([code === 0, stdout]).toEqual([false, '']);
    expect(stderr).toContain('rate_limit_exceeded');
    const [limited, ...others] = clients.proxy.take();
    expect(Number(limited?.responseHeaders['retry-after'])).toBeGreaterThan(3_600);
    expect(others).toEqual([]);
  });

  it('fails and names the code when the cancel is rejected: 404, 409 and 401', async () => {
    const missing = '9007199254749999';
    expect(await runHere(undefined, missing)).toMatchObject({
      code: 1,
      stdout: clients.outputFor(missing, 'order_not_found'),
    });
    await clients.service.db.query("UPDATE orders SET status = 'shipped' WHERE id = $1", [orderId()]);
    expect(await runHere()).toMatchObject({ code: 1, stdout: clients.outputFor(orderId(), 'order_already_shipped') });
    const rejected = await runHere('pst_unknown');
    expect([rejected.code === 0, rejected.stdout]).toEqual([false, '']);
    expect(await clients.cancelledIds()).toEqual([orderId()]);
  });

  it('fails and names the status when a proxy rejects the cancel with a page', async () => {
    clients.proxy.disturbNext('DELETE', { kind: 'html', status: 403 });
    expect(await runHere()).toMatchObject({ code: 1, stdout: clients.outputFor(orderId(), '403') });
    expect(await clients.cancelledIds()).toEqual([]);
  });

  it('does not list again when the list has no ETag', async () => {
    clients.proxy.disturbNext('GET', { kind: 'no-etag' });
    expect(await runHere()).toMatchObject({ code: 0, stdout: clients.outputFor(orderId()).replace('unchanged\n', '') });
    expect(clients.proxy.take().map(({ method }) => method)).toEqual(['GET', 'DELETE']);
  });

  it.each(['break', 'truncate'] as const)('never uses a list that is cut (%s)', async (kind) => {
    const { file = BROWSER, isGenerated }: Partial<Program> = PROGRAMS[index] ?? {};
    const repeats = kind === 'break' ? isGenerated !== true : REPEAT_TRUNCATED.includes(file);
    clients.proxy.disturbNext('GET', { kind });
    const { code, stdout } = await runHere();
    expect([code === 0, stdout]).toEqual([repeats, repeats ? clients.outputFor(orderId()) : '']);
    expect(clients.proxy.take()[0]?.status).toBe(200);
  });

  return { orderId, run: runHere };
}

function testClient(index: number, run: Run): void {
  const client = testEveryClient(index, run);

  it('waits for Retry-After after 429, then succeeds', async () => {
    clients.proxy.disturbNext('GET', { kind: 'limit', spentKey: await clients.insertSpentKey() });
    expect(await client.run()).toMatchObject({ code: 0, stdout: clients.outputFor(client.orderId()) });
    const [limited, list] = clients.proxy.take();
    expect([limited?.status, list?.status]).toEqual([429, 200]);
    // Only a lower bound, which a slow machine does not touch. Timers may fire a millisecond early.
    expect(list!.receivedAt - limited!.respondedAt).toBeGreaterThan(990);
  });

  it.each<[string, retryAfter: () => string, waitsAtLeastMs: number]>([
    // A date has whole seconds.
    ['a date in the future', () => httpDate(3), 1_900],
    ['a date in the past', () => httpDate(-60), 0],
    ['neither seconds nor a date', () => 'soon', 0],
  ])('waits when Retry-After is %s, then succeeds', async (_what, retryAfter, waitsAtLeastMs) => {
    clients.proxy.disturbNext('GET', { kind: 'unavailable', retryAfter });
    expect(await client.run()).toMatchObject({ code: 0, stdout: clients.outputFor(client.orderId()) });
    const [unavailable, list] = clients.proxy.take();
    expect([unavailable?.status, list?.status]).toEqual([503, 200]);
    expect(list!.receivedAt - unavailable!.respondedAt).toBeGreaterThan(waitsAtLeastMs);
  });

  it('fails when Retry-After is a date in an hour, without sending more requests', async () => {
    clients.proxy.disturbNext('GET', { kind: 'unavailable', retryAfter: () => httpDate(3_600) });
    const { code, stdout } = await client.run();
    expect([code === 0, stdout]).toEqual([false, '']);
    expect(clients.proxy.take().map(({ status }) => status)).toEqual([503]);
  });

  it('repeats a cancel whose response is lost, and understands order_already_cancelled', async () => {
    clients.proxy.disturbNext('DELETE', { kind: 'lose' });
    expect(await client.run()).toMatchObject({ code: 0, stdout: clients.outputFor(client.orderId()) });
    expect(clients.proxy.take().map(({ status }) => status)).toEqual([200, 304, 204, 409]);
  });
}

function httpDate(secondsFromNow: number): string {
  return new Date(Date.now() + secondsFromNow * 1_000).toUTCString();
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
  return [newNode(), outfile];
}

/** Runs the command that the first line of the generator's configuration names. */
function generate(cwd: string): void {
  const [, command = ''] = /^\/\/ (?:npx|node) (?:--package \S+ )*([^;\n]+)/.exec(configurationOf(cwd)) ?? [];
  const [program = '', ...args] = command.split(' ');
  const isScript = program.endsWith('.mjs');
  const file = isScript ? newNode() : join(GENERATORS, 'node_modules', '.bin', program.replace(/@[\d.]+$/, ''));
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
