import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RedisQuotaStore } from '../../src/rate-limit/redis-quota-store.js';
import { freePort } from './free-port.js';
import { countOf, type RedisLimits, ROOMY } from './redis-limits.js';
import type { RedisServer } from './redis-server.js';
import { waitFor } from './wait-for.js';

/** A Redis primary and its replica behind HAProxy, as docs/operations.md describes it, and a store that uses them. */
export class RedisPair {
  private constructor(
    readonly primary: RedisServer,
    readonly replica: RedisServer,
    readonly store: RedisQuotaStore,
    readonly stop: () => void,
  ) {}

  /** The store has counted 50 requests of `key:b`, which the replica has, too. */
  static async start(limits: RedisLimits): Promise<RedisPair> {
    const primary = await limits.startRedis();
    const replica = await limits.startRedis(['--replicaof', `127.0.0.1 ${primary.port}`]);
    const { port, stop } = await startHaproxy([primary, replica]);
    const store = await limits.storeOn(`redis://127.0.0.1:${port}`);
    await waitFor(async () => {
      await store.consume('key:a', ROOMY);
      return !store.degraded && (await countOf(primary, 'key:a')) > 0;
    }, 'the proxy leads to the primary');
    limits.logged = [];
    await Promise.all(Array.from({ length: 50 }, async () => store.consume('key:b', ROOMY)));
    await waitFor(async () => (await countOf(replica, 'key:b')) === 50, 'the replica has all counts');
    return new RedisPair(primary, replica, store, stop);
  }
}

async function startHaproxy(servers: readonly RedisServer[]): Promise<{ port: number; stop: () => void }> {
  const folder = mkdtempSync(join(tmpdir(), 'petstore-redis-proxy-'));
  const port = await freePort();
  const file = join(folder, 'haproxy.cfg');
  writeFileSync(
    file,
    haproxyFor(
      port,
      servers.map((server) => server.port),
    ),
  );
  execFileSync('haproxy', ['-c', '-f', file], { stdio: 'pipe' });
  const proxy = spawn('haproxy', ['-f', file, '-db'], { stdio: 'ignore' });
  const stop = (): void => {
    proxy.kill('SIGKILL');
    rmSync(folder, { recursive: true });
  };
  return { port, stop };
}

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
