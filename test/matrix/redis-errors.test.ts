import type { Redis } from 'ioredis';
import { liftBanInRedis, readUsage } from '../../src/rate-limit/redis-admin.js';
import { redisKeyOf } from '../../src/rate-limit/redis-script.js';
import { describeWith } from '../helpers/describe-with.js';
import {
  administrate,
  expectFallback,
  expectRecovery,
  RedisLimits,
  ROOMY,
  untilRecovered,
} from '../helpers/redis-limits.js';
import { waitFor } from '../helpers/wait-for.js';

RedisLimits.use();

/** Commands that Redis has rejected because its memory is full. */
async function rejectedForMemory(admin: Redis): Promise<number> {
  return Number(/errorstat_OOM:count=(\d+)/.exec(await admin.info('errorstats'))?.[1] ?? 0);
}

describeWith('redis-server')('a Redis that rejects commands', () => {
  it.concurrent('OOM: counts in memory while maxmemory is reached', async () => {
    const limits = new RedisLimits();
    const server = await limits.startRedis();
    const store = await limits.storeOn(server.url);
    await administrate(server, (admin) => admin.config('SET', 'maxmemory', '1'));
    await expectFallback(store);
    expect(limits.logged[0]).toContain('OOM');
    await administrate(server, (admin) => admin.config('SET', 'maxmemory', '0'));
    await expectRecovery(store, server, limits.logged);
  });

  it.concurrent('OOM: stays degraded, without log lines in between, while only banned keys send requests', async () => {
    const limits = new RedisLimits();
    const server = await limits.startRedis();
    const store = await limits.storeOn(server.url);
    await administrate(server, async (admin) => {
      await admin.hset(redisKeyOf('banned'), 'bu', Date.now() + 200_000);
      expect((await store.consume('banned', ROOMY)).outcome).toBe('banned');
      await admin.config('SET', 'maxmemory', '1');
      await expectFallback(store);
      const rejectedBefore = await rejectedForMemory(admin);
      await waitFor(async () => {
        expect((await store.consume('banned', ROOMY)).outcome).toBe('banned');
        return (await rejectedForMemory(admin)) >= rejectedBefore + 2;
      }, 'Redis is probed twice');
      expect([store.degraded, limits.recoveries]).toEqual([true, 0]);
      await admin.config('SET', 'maxmemory', '0');
      await waitFor(async () => {
        expect((await store.consume('banned', ROOMY)).outcome).toBe('banned');
        return !store.degraded;
      }, 'the store is not degraded');
    });
    expect(limits.logged).toEqual([expect.stringContaining('OOM'), expect.stringContaining('available again')]);
  });

  it.concurrent('BUSY: counts in memory while a script of another client runs', async () => {
    const limits = new RedisLimits();
    const server = await limits.startRedis(['--busy-reply-threshold', '20']);
    const store = await limits.storeOn(server.url);
    await administrate(server, async (admin) => {
      await admin.ping();
      const script = server.connect();
      script.eval('while true do end', 0).catch(() => undefined);
      await expectFallback(store);
      await admin.script('KILL');
      script.disconnect();
    });
    await expectRecovery(store, server, limits.logged);
  });

  it.concurrent('LOADING: counts in memory while Redis loads its data', async () => {
    const limits = new RedisLimits();
    const server = await limits.startRedis([
      '--key-load-delay',
      '5000',
      '--loading-process-events-interval-bytes',
      '1024',
    ]);
    const store = await limits.storeOn(server.url);
    await administrate(server, async (admin) => {
      for (let key = 0; key < 500; key++) {
        await admin.set(`filler:${key}`, 'x'.repeat(100));
      }
      await admin.save();
    });
    await server.kill();
    const restarted = server.restart();
    await expectFallback(store);
    await restarted;
    await expectRecovery(store, server, limits.logged);
  });

  it.concurrent('NOAUTH: counts in memory while Redis expects another password', async () => {
    const limits = new RedisLimits();
    const server = await limits.startRedis();
    const store = await limits.storeOn(server.url);
    const keeper = server.connect();
    await keeper.config('SET', 'requirepass', 'changed');
    // Connections that are open remain authenticated.
    await keeper.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await expectFallback(store);
    await keeper.config('SET', 'requirepass', '');
    keeper.disconnect();
    await expectRecovery(store, server, limits.logged);
  });

  it.concurrent.each([
    { what: 'the database of REDIS_URL does not exist', user: '', path: '/1', reason: 'ERR DB index is out of range' },
    { what: 'the user may not select the database', user: 'limited:secret@', path: '/1', reason: 'NOPERM' },
  ])('counts in memory, and in no other database, when $what', async ({ user, path, reason }) => {
    const limits = new RedisLimits();
    const acl = ['--user', 'limited', 'on', '>secret', '~*', '+@all', '-select'];
    const server = await limits.startRedis(['--databases', '1', ...acl]);
    const url = `${server.url.replace('//', `//${user}`)}${path}`;
    const store = await limits.storeOn(url);
    await expectFallback(store);
    expect(limits.logged).toEqual([expect.stringContaining(`Redis unavailable (${reason}`)]);
    expect(await administrate(server, (admin) => admin.dbsize())).toBe(0);
    await expect(readUsage(url, ['a'], Date.now())).rejects.toThrow(reason);
    await expect(liftBanInRedis(url, 'a')).rejects.toThrow(reason);
  });

  it.concurrent('selects the database again on a new connection, and counts in memory when that fails', async () => {
    const limits = new RedisLimits();
    const server = await limits.startRedis(['--user', 'limited', 'on', '>secret', '~*', '+@all']);
    const store = await limits.storeOn(`${server.url.replace('//', '//limited:secret@')}/3`);
    await store.consume('a', ROOMY);
    await administrate(server, async (admin) => {
      const count = async (): Promise<number> => Number(await admin.hget(redisKeyOf('a'), 'du'));
      await admin.select(3);
      expect(await count()).toBe(1);
      await admin.acl('SETUSER', 'limited', '-select');
      await admin.call('CLIENT', 'KILL', 'USER', 'limited');
      await expectFallback(store);
      await waitFor(() => limits.logged.some((line) => line.includes('NOPERM')), 'the reason is logged');
      await admin.acl('SETUSER', 'limited', '+select');
      await untilRecovered(store);
      await store.consume('a', ROOMY);
      expect(await count()).toBe(2);
      await admin.select(0);
      expect(await admin.dbsize()).toBe(0);
    });
  });

  it.concurrent('logs that TLS may be the reason when the server does not use it', async () => {
    const limits = new RedisLimits();
    const server = await limits.startRedis();
    const store = await limits.storeOn(server.url.replace('redis:', 'rediss:'));
    await expectFallback(store);
    expect(limits.logged).toEqual([expect.stringContaining('connect ETIMEDOUT; check that the server uses TLS')]);
  });
});
