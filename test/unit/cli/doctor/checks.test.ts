import { checkClock } from '../../../../src/cli/doctor/check.js';
import { redisResult } from '../../../../src/cli/doctor/redis.js';

const INFO = {
  redis_version: '8.0.0',
  maxmemory: '1000',
  maxmemory_policy: 'noeviction',
  used_memory: '100',
  aof_enabled: '1',
};

test.each([
  [{}, 'ok', '8.0.0 at redis:1, with an append-only file and without eviction'],
  [{ role: 'slave' }, 'error', 'redis:1 is a read-only replica'],
  [{ cluster_enabled: '1' }, 'error', 'redis:1 is a node of a Redis Cluster, which is not supported'],
  [
    { maxmemory: '0', maxmemory_policy: 'allkeys-lru' },
    'ok',
    '8.0.0 at redis:1, with an append-only file and without eviction',
  ],
  [{ maxmemory_policy: 'volatile-ttl' }, 'error', 'redis:1 evicts counts (volatile-ttl)'],
  [{ used_memory: '900' }, 'warning', 'redis:1 uses 90 % of its maxmemory'],
  [{ used_memory: '1001' }, 'error', 'redis:1 uses 100 % of its maxmemory'],
  [{ aof_enabled: '0' }, 'warning', 'redis:1 has no append-only file'],
  [{ aof_enabled: '0', rdb_last_bgsave_status: 'err' }, 'error', 'redis:1 could not write to disk'],
])('Redis with %j: %s', (info, status, message) => {
  const reply = Object.entries({ ...INFO, ...info }).map(([name, value]) => `${name}:${value}\r\n`);
  const result = redisResult('redis:1', ['# Section\r\n', ...reply].join(''));
  expect(result).toMatchObject({ status, message });
});

test.each([
  [1_000, 'ok', 'within a second of the clock of this host'],
  [2_000, 'warning', 'this host is 2.0 s behind Redis'],
  [-86_400_000, 'error', 'this host is 86400.0 s ahead of Redis'],
])('a server %d ms ahead: %s', async (ahead, status, message) => {
  jest.spyOn(Date, 'now').mockReturnValue(0);
  const result = await checkClock('Redis', () => Promise.resolve(ahead));
  expect(result).toMatchObject({ status, message });
});
