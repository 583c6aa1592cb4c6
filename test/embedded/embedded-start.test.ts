import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { DemoCheckout } from '../helpers/demo-service.js';

jest.setTimeout(90_000);

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

const postmasterPid = ({ folder }: DemoCheckout): number =>
  Number(readFileSync(join(folder, '.data', 'postgres', 'postmaster.pid'), 'utf8').split('\n')[0]);

describe('petstore serve without DATABASE_URL', () => {
  let checkout: DemoCheckout;

  beforeAll(() => {
    checkout = new DemoCheckout();
  });
  afterAll(() => {
    checkout.remove();
  });

  it('runs on an embedded PostgreSQL, keeps data and keys over restarts and crashes, and leaves no process', async () => {
    const first = await checkout.serve();
    const listed = (await (await listOrders(first.baseUrl, first.freeKey)).json()) as unknown[];
    expect(listed.length).toBeGreaterThan(10);
    expect((await cancelOrder(first.baseUrl, '1', first.freeKey)).status).toBe(204);
    const firstPostgres = postmasterPid(checkout);

    const second = checkout.run('serve');
    expect(await second.exited).toBe(1);
    expect(second.output()).toMatch(/already running here \(process \d+/);

    const keys = checkout.run('keys', 'list', '--json');
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

    const third = await checkout.serve();
    expect(third.freeKey).toBe(first.freeKey);
    expect((await errorOf(await cancelOrder(third.baseUrl, '1', third.freeKey))).code).toBe('order_already_cancelled');
    third.child.kill('SIGKILL');
    await third.exited;
    const orphan = postmasterPid(checkout);

    const fourth = await checkout.serve();
    expect(isAlive(orphan)).toBe(false);
    expect((await listOrders(fourth.baseUrl, fourth.freeKey)).status).toBe(200);
    fourth.child.kill('SIGTERM');
    expect(await fourth.exited).toBe(0);
  });

  it('tells an administrator what to do when there is no database to work on', async () => {
    const keys = checkout.run('keys', 'list');
    expect(await keys.exited).toBe(2);
    expect(keys.output()).toContain('DATABASE_URL is not set');
  });
});
