import { describeWith } from '../helpers/describe-with.js';
import { administrate, countOf, expectFallback, expectRecovery, RedisLimits, ROOMY } from '../helpers/redis-limits.js';
import { RedisPair } from '../helpers/redis-pair.js';

const limits = new RedisLimits();

describeWith('redis-server', 'haproxy')('a Redis primary and its replica behind HAProxy', () => {
  it('continues with the counts of the replica when the primary is killed and the replica promoted', async () => {
    const { primary, replica, store, stop } = await RedisPair.start(limits);
    try {
      await primary.kill();
      await expectFallback(store);
      await administrate(replica, (admin) => admin.replicaof('NO', 'ONE'));
      await expectRecovery(store, replica, limits.logged);
      await store.consume('key:b', ROOMY);
      expect(await countOf(replica, 'key:b')).toBe(51);
    } finally {
      stop();
    }
  });
});
