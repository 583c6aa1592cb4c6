import { type ChildProcess, spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { until } from '../helpers/until.js';

jest.setTimeout(90_000);

const ROOT = join(__dirname, '..', '..');

/** A checkout of its own, so that the embedded data of whoever runs the tests stays untouched. */
function makeCheckout(): string {
  const folder = mkdtempSync(join(tmpdir(), 'petstore-checkout-'));
  for (const name of ['dist', 'prisma', 'prisma.config.ts', 'package.json']) {
    cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  }
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  return folder;
}

interface Run {
  readonly child: ChildProcess;
  output(): string;
  exited: Promise<number | null>;
}

function run(checkout: string, ...args: string[]): Run {
  const environment = { ...process.env, PORT: '0', METRICS_PORT: '0', NODE_ENV: 'development' };
  delete (environment as NodeJS.ProcessEnv).DATABASE_URL;
  const child = spawn(process.execPath, [join(checkout, 'dist', 'cli.js'), ...args], {
    cwd: checkout,
    env: environment,
  });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
  return { child, output: () => output, exited: new Promise((resolve) => child.once('exit', resolve)) };
}

async function startedService(checkout: string): Promise<Run & { baseUrl: string; freeKey: string }> {
  const service = run(checkout, 'serve');
  await until(() => service.output().includes('List all orders'), 'the banner is printed', { withinMs: 60_000 });
  const baseUrl = /API +(http:\/\/127\.0\.0\.1:\d+)\/v1/.exec(service.output())?.[1] ?? '';
  const freeKey = /free key +(pst_\w+)/.exec(service.output())?.[1] ?? '';
  return { ...service, baseUrl, freeKey };
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

const postmasterPid = (checkout: string): number =>
  Number(readFileSync(join(checkout, '.data', 'postgres', 'postmaster.pid'), 'utf8').split('\n')[0]);

describe('petstore serve without DATABASE_URL', () => {
  let checkout: string;

  beforeAll(() => {
    checkout = makeCheckout();
  });
  afterAll(() => {
    rmSync(checkout, { recursive: true, force: true });
  });

  it('runs on an embedded PostgreSQL, keeps data and keys over restarts and crashes, and leaves no process', async () => {
    const first = await startedService(checkout);
    const listed = (await (await listOrders(first.baseUrl, first.freeKey)).json()) as unknown[];
    expect(listed.length).toBeGreaterThan(10);
    expect((await cancelOrder(first.baseUrl, '1', first.freeKey)).status).toBe(204);
    const firstPostgres = postmasterPid(checkout);

    const second = run(checkout, 'serve');
    expect(await second.exited).toBe(1);
    expect(second.output()).toMatch(/already running here \(process \d+/);

    const keys = run(checkout, 'keys', 'list', '--json');
    expect(await keys.exited).toBe(0);
    expect((JSON.parse(keys.output()) as { plan: string }[]).map(({ plan }) => plan).sort()).toEqual([
      'business',
      'enterprise',
      'free',
      'pro',
    ]);

    first.child.kill('SIGINT');
    expect(await first.exited).toBe(0);
    expect(isAlive(firstPostgres)).toBe(false);

    const third = await startedService(checkout);
    expect(third.freeKey).toBe(first.freeKey);
    expect((await errorOf(await cancelOrder(third.baseUrl, '1', third.freeKey))).code).toBe('order_already_cancelled');
    third.child.kill('SIGKILL');
    await third.exited;
    const orphan = postmasterPid(checkout);

    const fourth = await startedService(checkout);
    expect(isAlive(orphan)).toBe(false);
    expect((await listOrders(fourth.baseUrl, fourth.freeKey)).status).toBe(200);
    fourth.child.kill('SIGTERM');
    expect(await fourth.exited).toBe(0);
  });

  it('tells an administrator what to do when there is no database to work on', async () => {
    const keys = run(checkout, 'keys', 'list');
    expect(await keys.exited).toBe(2);
    expect(keys.output()).toContain('DATABASE_URL is not set');
  });
});
