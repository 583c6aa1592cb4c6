import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { cancelOrder } from '../helpers/api.js';
import { DemoCheckout, waitForExit } from '../helpers/demo-service.js';
import { describeIf } from '../helpers/describe-if.js';
import { lockOrder, untilLockWaits } from '../helpers/lock-waits.js';
import { openPool } from '../helpers/open-pool.js';
import { waitFor } from '../helpers/wait-for.js';

const CTRL_C = '\x03';
const CTRL_BACKSLASH = '\x1c';
/** Keeps the service stopping for longer than a test waits. */
const SLOW_STOP = { SHUTDOWN_DELAY_SECONDS: '60' };

const checkout = new DemoCheckout();

const accepts = (baseUrl: string): Promise<boolean> =>
  fetch(`${baseUrl}/health/live`).then(
    () => true,
    () => false,
  );

describe('a signal to the service on the embedded database', () => {
  it.each(['SIGINT', 'SIGHUP'] as const)(
    'exits with 0 after stopping PostgreSQL when %s arrives twice',
    async (signal) => {
      const service = await checkout.serve();
      const postgres = checkout.postmasterPid();
      service.child.kill(signal);
      await waitFor(() => service.output().includes('"stopping"'), 'the service stops');
      service.child.kill(signal);
      expect(await service.exited).toBe(0);
      await waitForExit(postgres);
    },
  );

  it('completes an in-flight cancel before PostgreSQL stops', async () => {
    const service = await checkout.serve(checkout.runWith({ CANCEL_LOCK_TIMEOUT_MS: '30000' }, 'serve'));
    const url = /Database +(\S+)/.exec(service.output())?.[1] ?? '';
    const db = openPool({ connectionString: url });
    try {
      const release = await lockOrder(db, '1');
      const cancelled = cancelOrder(service.baseUrl, '1', service.freeKey);
      await untilLockWaits(db);
      service.child.kill('SIGINT');
      await waitFor(async () => !(await accepts(service.baseUrl)), 'the service accepts no connection');
      // Rejects if PostgreSQL has ended.
      await release().catch(() => undefined);
      expect((await cancelled).status).toBe(204);
      expect(await service.exited).toBe(0);
    } finally {
      service.child.kill('SIGKILL');
      await db.end();
    }
  });

  it('exits with 0 and leaves no PostgreSQL process when it arrives while the database starts', async () => {
    const service = checkout.run('serve');
    const pidFile = join(checkout.data, 'cluster', 'data', 'postmaster.pid');
    await waitFor(() => existsSync(pidFile) && checkout.postmasterPid() > 0, 'PostgreSQL starts', { withinMs: 60_000 });
    const postgres = checkout.postmasterPid();
    service.child.kill('SIGTERM');
    expect(await service.exited).toBe(0);
    await waitForExit(postgres);
  });
});

function hasScript(): boolean {
  try {
    return execFileSync('script', ['--version'], { encoding: 'utf8' }).includes('util-linux');
  } catch {
    return false;
  }
}

const describeOnTerminal = describeIf(hasScript(), 'script(1) of util-linux (Debian: apt install bsdutils)');

describeOnTerminal('Ctrl-C on a terminal', () => {
  it.each(['node dist/bundle/cli.js serve', 'npm run start:prod'])(
    'ends "%s" with 0 after PostgreSQL',
    async (command) => {
      const service = await checkout.serve(checkout.runOnTerminal(command));
      const postgres = checkout.postmasterPid();
      service.child.stdin?.write(CTRL_C);
      expect(await service.exited).toBe(0);
      // npm must not return to the prompt before the service has ended, which stops PostgreSQL last.
      expect(service.output()).toContain('stopped');
      await waitForExit(postgres);
    },
  );

  it('ends at once with Ctrl-\\ while it stops, and leaves no PostgreSQL process', async () => {
    const service = await checkout.serve(checkout.runOnTerminal('node dist/bundle/cli.js serve', SLOW_STOP));
    const postgres = checkout.postmasterPid();
    service.child.stdin?.write(CTRL_C);
    await waitFor(() => service.output().includes('stopping'), 'the service stops');
    service.child.stdin?.write(CTRL_BACKSLASH);
    await service.exited;
    expect(service.output()).not.toContain('stopped');
    await waitForExit(postgres);
  });
});
