import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Results } from '../../../../src/cli/doctor/check.js';
import { clockResult } from '../../../../src/cli/doctor/clock.js';
import { redisResults } from '../../../../src/cli/doctor/redis.js';
import { MIGRATIONS } from '../../../../src/cli/doctor/schema.js';
import { checkTls } from '../../../../src/cli/doctor/tls.js';
import { loadConfig } from '../../../../src/config/load-config.js';

const INFO = {
  redis_version: '8.0.0',
  maxmemory: '1000',
  maxmemory_policy: 'noeviction',
  used_memory: '100',
  aof_enabled: '1',
};

const redis = (...nodes: Readonly<Record<string, string>>[]): Results =>
  redisResults(
    nodes.map((info, index) => ({
      address: `redis:${index}`,
      info: { ...INFO, ...info },
      clockDifferenceMs: index * 2_000,
    })),
  );

test.each([
  ['Redis', redis({}), 'ok', '8.0.0 at redis:0'],
  ['Redis', redis({}, { role: 'slave' }), 'error', 'redis:1 is a replica, which is read-only'],
  ['Redis memory', redis({ maxmemory: '0', maxmemory_policy: 'allkeys-lru' }), 'ok', 'without limit'],
  ['Redis memory', redis({}, { maxmemory_policy: 'volatile-ttl' }), 'error', 'redis:1 evicts counts (volatile-ttl)'],
  ['Redis memory', redis({ used_memory: '900' }), 'warning', 'redis:0 has nearly used it up'],
  ['Redis persistence', redis({}), 'ok', 'append-only file'],
  ['Redis persistence', redis({ aof_enabled: '0' }), 'warning', 'redis:0 has no append-only file'],
  [
    'Redis persistence',
    redis({ aof_enabled: '0' }, { rdb_last_bgsave_status: 'err' }),
    'error',
    'redis:1 could not write its data to disk',
  ],
  ['clock of Redis', redis({}, {}), 'warning', 'this host is 2 s ahead of Redis'],
  ['clock', { clock: clockResult('Redis', 1_000) }, 'ok', 'the same as of this host, within a second'],
  ['clock', { clock: clockResult('Redis', -86_400_000) }, 'error', 'this host is 1 d behind Redis'],
])('%s %#: %s', (name, results, status, message) => {
  expect(results[name]).toMatchObject({ status, message });
});

test.each([
  ['postgresql://app@203.0.113.1/petstore', 'warning'],
  ['postgresql://app@203.0.113.1/petstore?sslmode=no-verify', 'warning'],
  ['postgresql://app@203.0.113.1/petstore?sslmode=verify-full', 'ok'],
  ['postgresql://app@10.0.0.1/petstore', 'ok'],
])('TLS with %s: %s', async (DATABASE_URL, status) => {
  expect((await checkTls(loadConfig({ DATABASE_URL }))).status).toBe(status);
});

it('has every migration of prisma/migrations', () => {
  const folder = join(__dirname, '..', '..', '..', '..', 'prisma', 'migrations');
  const names = readdirSync(folder, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? [entry.name] : [],
  );
  expect(Object.keys(MIGRATIONS)).toEqual(names.sort());
});
