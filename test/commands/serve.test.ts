import { spawn } from 'node:child_process';
import { chownSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { DemoCheckout, type DemoService, waitForExit } from '../helpers/demo-service.js';
import { waitFor } from '../helpers/wait-for.js';

const checkout = new DemoCheckout();
const cluster = join(checkout.data, 'cluster');
const pidFile = join(cluster, 'data', 'postmaster.pid');
const ALREADY_RUNNING = /already running here \(its PostgreSQL is process \d+/;

async function stop(service: DemoService): Promise<void> {
  service.child.kill('SIGINT');
  expect(await service.exited).toBe(0);
}

/** Starts the service, lists the orders and stops it. */
async function expectToStart(): Promise<void> {
  const service = await checkout.serve();
  expect((await listOrders(service.baseUrl, service.freeKey)).status).toBe(200);
  await stop(service);
}

describe('petstore serve without DATABASE_URL', () => {
  it('keeps data and keys after a restart and a crash, and leaves no PostgreSQL process', async () => {
    const first = await checkout.serve();
    expect(first.output()).toMatch(/^Starting PostgreSQL/);
    const listed = (await (await listOrders(first.baseUrl, first.freeKey)).json()) as unknown[];
    expect(listed.length).toBeGreaterThan(10);
    expect((await cancelOrder(first.baseUrl, '1', first.freeKey)).status).toBe(204);
    const firstPostgres = checkout.postmasterPid();

    const second = checkout.run('serve');
    expect(await second.exited).toBe(1);
    expect(second.output()).toMatch(ALREADY_RUNNING);

    const keys = checkout.run('keys', 'list', '--json');
    expect(await keys.exited).toBe(0);
    const plans = (JSON.parse(keys.output()) as { plan: string }[]).map(({ plan }) => plan);
    expect(plans.sort().join()).toBe('business,enterprise,free,pro');

    const doctor = checkout.run('doctor');
    expect(await doctor.exited).toBe(0);
    expect(doctor.output()).not.toMatch(/^(?:warning|error)/m);

    await stop(first);
    await waitForExit(firstPostgres);

    const third = await checkout.serve();
    expect(third.freeKey).toBe(first.freeKey);
    expect((await errorOf(await cancelOrder(third.baseUrl, '1', third.freeKey))).code).toBe('order_already_cancelled');
    // The printed command cancels an order that is pending.
    const printed = /cancel order (\d+):/.exec(third.output())?.[1] ?? '';
    expect((await cancelOrder(third.baseUrl, printed, third.freeKey)).status).toBe(204);
    const orphan = checkout.postmasterPid();
    third.child.kill('SIGKILL');
    await third.exited;

    await expectToStart();
    await waitForExit(orphan);
  });

  it('exits with 1 and names the log when PostgreSQL is killed, and starts again', async () => {
    const service = await checkout.serve();
    process.kill(checkout.postmasterPid(), 'SIGKILL');
    expect(await service.exited).toBe(1);
    expect(service.output()).toMatch(/^error: The embedded PostgreSQL has ended \(log: .*postgres\.log\)/m);
    await expectToStart();
  });

  it('starts when another process of the user has the number of a PostgreSQL that crashed', async () => {
    const { uid, gid } = statSync(join(cluster, 'data'));
    const stranger = spawn('sleep', ['600'], process.getuid?.() === 0 ? { uid, gid } : {});
    writeFileSync(pidFile, [stranger.pid, join(cluster, 'data'), 1_700_000_000, 5432, '', '127.0.0.1', ''].join('\n'));
    chownSync(pidFile, uid, gid);
    try {
      await expectToStart();
      expect(stranger).toMatchObject({ exitCode: null, signalCode: null });
    } finally {
      stranger.kill('SIGKILL');
    }
  });

  it('runs once when it is started twice at the same time for the first time', async () => {
    rmSync(checkout.data, { recursive: true, force: true });
    const runs = [checkout.run('serve'), checkout.run('serve')];
    await waitFor(() => runs.some(({ child }) => child.exitCode !== null), 'one has ended', { withinMs: 60_000 });
    const [ended] = runs.filter(({ child }) => child.exitCode !== null);
    expect(ended?.output()).toMatch(ALREADY_RUNNING);
    const service = await checkout.serve(runs.find((run) => run !== ended));
    expect((await listOrders(service.baseUrl, service.freeKey)).status).toBe(200);
    await stop(service);
    expect(readdirSync(checkout.data).sort()).toEqual(['cluster', 'postgres.log']);
    await expectToStart();
  });

  it('starts after it was killed in each step of its first start', async () => {
    rmSync(checkout.data, { recursive: true, force: true });
    const steps = [
      () => existsSync(checkout.data) && readdirSync(checkout.data).some((name) => name.startsWith('cluster.new-')),
      () => existsSync(cluster),
      () => existsSync(pidFile),
      () => existsSync(pidFile) && readFileSync(pidFile, 'utf8').includes('ready'),
    ];
    for (const [index, reached] of steps.entries()) {
      const service = checkout.run('serve');
      await waitFor(reached, `step ${index} is reached`, { withinMs: 60_000 });
      service.child.kill('SIGKILL');
      await service.exited;
    }
    await expectToStart();
  });

  it('shows the reason when its data does not fit on the disk', async () => {
    rmSync(checkout.data, { recursive: true, force: true });
    const service = checkout.runWithSmallFiles('serve');
    expect(await service.exited).toBe(1);
    expect(service.output()).toMatch(
      /^error: Cannot initialise the embedded PostgreSQL:\n[^]*could not write to file/m,
    );
  });
});

describe('a command without DATABASE_URL, when no service runs,', () => {
  it.each([
    ['doctor', 1, /^warning +database +DATABASE_URL is not set, and the embedded database/m],
    ['keys list', 2, /DATABASE_URL is not set/],
  ])('says what to do: %s', async (command, exitCode, output) => {
    const run = checkout.run(...command.split(' '));
    expect(await run.exited).toBe(exitCode);
    expect(run.output()).toMatch(output);
  });
});
