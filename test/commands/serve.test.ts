import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { DemoCheckout, type DemoService } from '../helpers/demo-service.js';
import { describeWith } from '../helpers/describe-if.js';
import { lockOrder, untilLockWaits } from '../helpers/lock-waits.js';
import { openPool } from '../helpers/open-pool.js';
import { waitFor } from '../helpers/wait-for.js';

const CTRL_C = '\x03';

const checkout = new DemoCheckout();
const cluster = join(checkout.data, 'cluster', 'data');
const pidFile = join(cluster, 'postmaster.pid');

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

/** Waits for a process to end that is not a child of this one. */
async function untilEnded(pid: number): Promise<void> {
  const isAlive = (): boolean => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };
  await waitFor(() => !isAlive(), `process ${pid} ends`);
}

describe('petstore serve without DATABASE_URL', () => {
  it('keeps data and keys after a restart and a crash, and leaves no PostgreSQL process', async () => {
    const first = await checkout.serve();
    expect(first.output).toMatch(/^Starting PostgreSQL/);
    const listed = (await (await listOrders(first.baseUrl, first.freeKey)).json()) as unknown[];
    expect(listed.length).toBeGreaterThan(10);
    expect((await cancelOrder(first.baseUrl, '1', first.freeKey)).status).toBe(204);
    const firstPostgres = checkout.postmasterPid();

    const second = checkout.run('serve');
    expect(await second.exited).toBe(1);
    expect(second.output).toMatch(/already running here \(its PostgreSQL is process \d+/);

    const keys = checkout.run('keys', 'list', '--json');
    expect(await keys.exited).toBe(0);
    const plans = (JSON.parse(keys.output) as { plan: string }[]).map(({ plan }) => plan);
    expect(plans.sort().join()).toBe('business,enterprise,free,pro');

    const doctor = checkout.run('doctor');
    expect(await doctor.exited).toBe(0);
    expect(doctor.output).not.toMatch(/^(?:warning|error)/m);

    await stop(first);
    await untilEnded(firstPostgres);

    const third = await checkout.serve();
    expect(third.freeKey).toBe(first.freeKey);
    expect((await errorOf(await cancelOrder(third.baseUrl, '1', third.freeKey))).code).toBe('order_already_cancelled');
    // The printed command cancels an order that is pending.
    const printed = /cancel order (\d+):/.exec(third.output)?.[1] ?? '';
    expect((await cancelOrder(third.baseUrl, printed, third.freeKey)).status).toBe(204);
    const orphan = checkout.postmasterPid();
    third.child.kill('SIGKILL');
    await third.exited;

    await expectToStart();
    await untilEnded(orphan);
  });

  it('exits with 1 and names the log when PostgreSQL is killed, and starts again beside a process that got its number', async () => {
    const service = await checkout.serve();
    process.kill(checkout.postmasterPid(), 'SIGKILL');
    expect(await service.exited).toBe(1);
    expect(service.output).toMatch(/^error: The embedded PostgreSQL has ended \(log: .*postgres\.log\)/m);
    writeFileSync(pidFile, readFileSync(pidFile, 'utf8').replace(/^\d+/, String(process.pid)));
    await expectToStart();
  });

  it('starts after it was killed while it made its data', async () => {
    rmSync(checkout.data, { recursive: true, force: true });
    const isBeingMade = (): boolean =>
      existsSync(checkout.data) && readdirSync(checkout.data).some((name) => name.startsWith('cluster.new-'));
    const service = checkout.run('serve');
    await waitFor(isBeingMade, 'the data is being made', { withinMs: 60_000 });
    service.child.kill('SIGKILL');
    await service.exited;
    await expectToStart();
  });
});

it('keys list without DATABASE_URL, when no service runs, says so', async () => {
  const run = checkout.run('keys', 'list');
  expect(await run.exited).toBe(2);
  expect(run.output).toMatch(/DATABASE_URL is not set/);
});

describe('a signal to the service on the embedded database', () => {
  it('ends it with 0 and PostgreSQL before it, also when it arrives twice', async () => {
    const service = await checkout.serve();
    const postgres = checkout.postmasterPid();
    service.child.kill('SIGINT');
    await waitFor(() => service.output.includes('"stopping"'), 'the service stops');
    service.child.kill('SIGINT');
    expect(await service.exited).toBe(0);
    await untilEnded(postgres);
  });

  it('completes an in-flight cancel before PostgreSQL stops', async () => {
    const service = await checkout.serve(checkout.runWith({ CANCEL_LOCK_TIMEOUT_MS: '30000' }, 'serve'));
    const url = /Database +(\S+)/.exec(service.output)?.[1] ?? '';
    const db = openPool({ connectionString: url });
    const accepts = (): Promise<boolean> =>
      fetch(`${service.baseUrl}/health/live`).then(
        () => true,
        () => false,
      );
    try {
      const release = await lockOrder(db, '2');
      const cancelled = cancelOrder(service.baseUrl, '2', service.freeKey);
      await untilLockWaits(db);
      service.child.kill('SIGINT');
      await waitFor(async () => !(await accepts()), 'the service accepts no connection');
      // Rejects if PostgreSQL has ended.
      await release().catch(() => undefined);
      expect((await cancelled).status).toBe(204);
      expect(await service.exited).toBe(0);
    } finally {
      service.child.kill('SIGKILL');
      await db.end();
    }
  });

  it('ends it with 0, and leaves no PostgreSQL process, while the database starts', async () => {
    const service = checkout.run('serve');
    await waitFor(() => existsSync(pidFile) && checkout.postmasterPid() > 0, 'PostgreSQL starts', { withinMs: 60_000 });
    const postgres = checkout.postmasterPid();
    service.child.kill('SIGTERM');
    expect(await service.exited).toBe(0);
    await untilEnded(postgres);
  });
});

describeWith('script')('Ctrl-C on a terminal', () => {
  it('ends "npm run start:prod" with 0 after PostgreSQL', async () => {
    const service = await checkout.serve(checkout.runOnTerminal('npm run start:prod'));
    const postgres = checkout.postmasterPid();
    service.child.stdin?.write(CTRL_C);
    expect(await service.exited).toBe(0);
    // npm must not return to the prompt before the service has ended, which stops PostgreSQL last.
    expect(service.output).toContain('stopped');
    await untilEnded(postgres);
  });
});
