import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describeWith } from '../helpers/describe-with.js';
import { administrate, countOf, expectFallback, expectRecovery, RedisLimits, ROOMY } from '../helpers/redis-limits.js';
import { RedisPair } from '../helpers/redis-pair.js';
import type { RedisServer } from '../helpers/redis-server.js';
import { waitFor } from '../helpers/wait-for.js';

/** An election that fails is repeated after twice this time. */
const FAILOVER_TIMEOUT_MS = 3_000;
/** Sentinels that start need seconds to find each other, and leave a demoted primary alone for eight seconds. */
const SENTINELS = { withinMs: 60_000 };

const limits = new RedisLimits();

jest.setTimeout(300_000);

describeWith('redis-server', 'haproxy')('three Redis Sentinels, and HAProxy in front of the servers', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'petstore-sentinel-'));
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });

  it('continues with the counts of the replica that they promote, also when the old primary returns', async () => {
    const { primary, replica, store, stop } = await RedisPair.start(limits);
    try {
      const sentinels = await Promise.all([1, 2, 3].map(() => startSentinel(primary)));
      await waitFor(
        async () => (await Promise.all(sentinels.map(seesAll))).every(Boolean),
        'the Sentinels see each other and the replica',
        SENTINELS,
      );
      await primary.kill();
      await expectFallback(store);
      await waitFor(async () => (await roleOf(replica)) === 'master', 'the replica has been promoted', SENTINELS);
      await expectRecovery(store, replica, limits.logged);
      await primary.restart();
      await waitFor(async () => (await roleOf(primary)) === 'slave', 'the old primary is a replica', SENTINELS);
      await waitFor(async () => {
        await store.consume('key:c', ROOMY);
        return !store.degraded && (await countOf(replica, 'key:c')) > 0;
      }, 'the store counts in the new primary');
      await store.consume('key:b', ROOMY);
      expect(await countOf(replica, 'key:b')).toBe(51);
    } finally {
      stop();
    }
  });

  async function startSentinel(primary: RedisServer): Promise<RedisServer> {
    const file = join(mkdtempSync(join(folder, 'sentinel-')), 'sentinel.conf');
    const settings = [
      `monitor limits 127.0.0.1 ${primary.port} 2`,
      'down-after-milliseconds limits 1000',
      `failover-timeout limits ${FAILOVER_TIMEOUT_MS}`,
    ];
    writeFileSync(file, settings.map((setting) => `sentinel ${setting}\n`).join(''));
    return limits.startRedis([file, '--sentinel']);
  }
});

async function seesAll(sentinel: RedisServer): Promise<boolean> {
  const state = (await administrate(sentinel, (admin) => admin.call('SENTINEL', 'MASTER', 'limits'))) as string[];
  const valueOf = (name: string): string | undefined => state[state.indexOf(name) + 1];
  return valueOf('num-slaves') === '1' && valueOf('num-other-sentinels') === '2';
}

async function roleOf(server: RedisServer): Promise<string> {
  const [role] = (await administrate(server, (admin) => admin.call('ROLE'))) as [string];
  return role;
}
