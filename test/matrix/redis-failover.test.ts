import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FallbackQuotaStore } from '../../src/rate-limit/fallback-quota-store.js';
import { describeWith } from '../helpers/describe-with.js';
import { freePort } from '../helpers/free-port.js';
import { administrate, countOf, expectFallback, expectRecovery, RedisLimits, ROOMY } from '../helpers/redis-limits.js';
import { waitFor } from '../helpers/wait-for.js';

const limits = new RedisLimits();

describeWith('redis-server', 'haproxy')('a Redis primary and its replica behind HAProxy', () => {
  let folder: string;
  let proxy: ChildProcess;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'petstore-redis-proxy-'));
  });
  afterEach(() => {
    proxy.kill('SIGKILL');
    rmSync(folder, { recursive: true });
  });

  it('continues with the counts of the replica when the primary is killed and the replica promoted', async () => {
    const [primary, replica] = [await limits.startRedis(), await limits.startRedis()];
    await administrate(replica, (admin) => admin.replicaof('127.0.0.1', primary.port));
    const port = await freePort();
    const file = join(folder, 'haproxy.cfg');
    writeFileSync(file, haproxyFor(port, [primary.port, replica.port]));
    execFileSync('haproxy', ['-c', '-f', file], { stdio: 'pipe' });
    proxy = spawn('haproxy', ['-f', file, '-db'], { stdio: 'ignore' });
    const store = await limits.storeOn(`redis://127.0.0.1:${port}`);
    await waitFor(
      async () => (await countOf(primary, 'key:a')) > 0 || consumed(store),
      'the proxy leads to the primary',
    );
    await waitFor(() => !store.degraded, 'the store is not degraded');
    limits.logged = [];
    await Promise.all(Array.from({ length: 50 }, async () => store.consume('key:b', ROOMY)));
    await waitFor(async () => (await countOf(replica, 'key:b')) === 50, 'the replica has all counts');
    await primary.kill();
    await expectFallback(store);
    await administrate(replica, (admin) => admin.replicaof('NO', 'ONE'));
    await expectRecovery(store, replica, limits.logged);
    await store.consume('key:b', ROOMY);
    expect(await countOf(replica, 'key:b')).toBe(51);
  });

  async function consumed(store: FallbackQuotaStore): Promise<boolean> {
    await store.consume('key:a', ROOMY);
    return false;
  }
});

function haproxyFor(port: number, redisPorts: readonly number[]): string {
  return `defaults
  mode tcp
  timeout connect 1s
  timeout client 1h
  timeout server 1h

listen redis
  bind 127.0.0.1:${port}
  option tcp-check
  tcp-check send info\\ replication\\r\\n
  tcp-check expect string role:master
  default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions
${redisPorts.map((redis) => `  server redis${redis} 127.0.0.1:${redis} check`).join('\n')}
`;
}
