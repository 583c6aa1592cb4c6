import { execFileSync, spawnSync } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildSync } from 'esbuild';
import {
  CLIENT_PACKAGES,
  ClientService,
  hasNewNode,
  installOnce,
  NEW_NODE,
  newNode,
  type Outcome,
  runProgram,
} from '../helpers/client-programs.js';
import { describeIf } from '../helpers/describe-if.js';

jest.setTimeout(180_000);

const ROOT = join(__dirname, '..', '..');
const GENERATORS = ['openapi-ts', 'orval', 'swagger-typescript-api'];
const EXAMPLES = join(ROOT, 'examples', 'generated-clients');
const PACKAGES = join(__dirname, 'generators');

let folder: string;
let clients: ClientService;

describeIf(NEW_NODE.isInstalled(), NEW_NODE.requirement)('clients generated from openapi.json', () => {
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'petstore-generators-'));
    installOnce(PACKAGES);
    if (!hasNewNode()) {
      installOnce(CLIENT_PACKAGES);
    }
    clients = await ClientService.start();
  });
  afterAll(async () => {
    await clients.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  describe.each(GENERATORS)('by %s', (generator) => {
    const own = (): string => join(folder, generator.replace(/\W/g, '-'));
    let key: string;
    let orderId: string;
    beforeEach(async () => {
      key = await clients.reset();
      orderId = clients.idOf(GENERATORS.indexOf(generator));
    });

    const run = (id = orderId, apiKey = key): Promise<Outcome> =>
      runProgram([newNode(), 'orders.mjs', id], own(), {
        PETSTORE_URL: `${clients.proxy.baseUrl}/v1`,
        PETSTORE_KEY: apiKey,
      });

    it('compile with tsc --strict', () => {
      mkdirSync(own());
      symlinkSync(join(PACKAGES, 'node_modules'), join(own(), 'node_modules'));
      copyFileSync(join(ROOT, 'openapi.json'), join(own(), 'openapi.json'));
      cpSync(join(EXAMPLES, generator), own(), { recursive: true });
      generate(own());
      expect(errorsOfCompiler(own())).toBe('');
      const options = { bundle: true, platform: 'node', format: 'esm', target: 'node22' } as const;
      buildSync({ ...options, entryPoints: [join(own(), 'orders.ts')], outfile: join(own(), 'orders.mjs') });
    });

    it('list with gzip and exact ids, get 304, and cancel exactly one order', async () => {
      expect(await run()).toMatchObject({ code: 0, stdout: clients.outputFor(orderId) });
      const requests = clients.proxy.take();
      expect(requests.map(({ method, status }) => [method, status])).toEqual([
        ['GET', 200],
        ['GET', 304],
        ['DELETE', 204],
      ]);
      expect(requests[0]?.responseHeaders['content-encoding']).toBe('gzip');
      expect(requests[2]?.path).toBe(`/v1/store/orders/${orderId}`);
      expect(await clients.cancelledIds()).toEqual([orderId]);
    });

    it('have the error codes: 404 order_not_found, 409, 401', async () => {
      const missing = '9007199254749999';
      expect(await run(missing)).toMatchObject({ code: 0, stdout: clients.outputFor(missing, 'order_not_found') });
      await clients.service.db.query("UPDATE orders SET status = 'shipped' WHERE id = $1", [orderId]);
      expect(await run()).toMatchObject({ stdout: clients.outputFor(orderId, 'order_already_shipped') });
      const rejected = await run(orderId, 'pst_unknown');
      expect([rejected.code === 0, rejected.stdout]).toEqual([false, '']);
    });

    it.each(['break', 'truncate'] as const)('never use a list that is cut (%s)', async (kind) => {
      clients.proxy.disturbNext('GET', { kind });
      const { code, stdout } = await run();
      expect([code === 0, stdout]).toEqual([false, '']);
      expect(clients.proxy.take()[0]?.status).toBe(200);
    });
  });
});

/** Runs the command that the first line of the generator's configuration names. */
function generate(cwd: string): void {
  const configuration = readdirSync(cwd).find((file) => file.endsWith('.mjs')) ?? '';
  const command = /^\/\/ (?:npx|node) (.+)/.exec(readFileSync(join(cwd, configuration), 'utf8'))?.[1] ?? '';
  const [program = '', ...args] = command.split(' ');
  const isScript = program.endsWith('.mjs');
  const file = isScript ? newNode() : join(PACKAGES, 'node_modules', '.bin', program);
  const environment = { PATH: process.env.PATH, HOME: cwd };
  execFileSync(file, isScript ? [program] : args, { cwd, stdio: ['ignore', 'ignore', 'inherit'], env: environment });
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
