import { describeWith } from '../helpers/describe-with.js';
import { administrate, expectFallback, expectRecovery, RedisLimits } from '../helpers/redis-limits.js';

const limits = new RedisLimits();

describeWith('redis-server')('a Redis that rejects commands', () => {
  it('OOM: counts in memory while maxmemory is reached', async () => {
    const server = await limits.startRedis();
    const store = await limits.storeOn(server.url);
    await administrate(server, (admin) => admin.config('SET', 'maxmemory', '1'));
    await expectFallback(store);
    expect(limits.logged[0]).toContain('OOM');
    await administrate(server, (admin) => admin.config('SET', 'maxmemory', '0'));
    await expectRecovery(store, server, limits.logged);
  });

  it('BUSY: counts in memory while a script of another client runs', async () => {
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

  it('LOADING: counts in memory while Redis loads its data', async () => {
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

  it('NOAUTH: counts in memory while Redis expects another password', async () => {
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
});
