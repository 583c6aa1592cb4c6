import { type LimitRedis, nodeOf } from '../../src/rate-limit/redis-connection.js';
import { redisKeyOf } from '../../src/rate-limit/redis-script.js';
import { describeWith } from '../helpers/describe-with.js';
import { formCluster } from '../helpers/redis-cluster.js';
import { administrate, countOf, HEALED, RedisLimits, ROOMY } from '../helpers/redis-limits.js';
import type { RedisServer } from '../helpers/redis-server.js';
import { waitFor } from '../helpers/wait-for.js';

const limits = new RedisLimits();

describeWith('redis-server')('a Redis Cluster of six nodes', () => {
  it('loses no count when a primary is killed under load, affects no other shard, and heals by itself', async () => {
    const flags = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '2000'];
    const tolerant = [...flags, '--cluster-require-full-coverage', 'no'];
    const primaries = await Promise.all([1, 2, 3].map(() => limits.startRedis(tolerant)));
    await formCluster(primaries);
    const replicas = await Promise.all(primaries.map(() => limits.startRedis(tolerant)));
    for (const [index, replica] of replicas.entries()) {
      await replicate(replica, primaries[index]!);
    }
    const store = await limits.storeOn([...primaries, ...replicas].map(({ url }) => url));
    const [redis] = limits.clients as [LimitRedis];
    const failed = primaries[0]!;
    const successor = replicas[0]!;
    const isOn = (subject: string, server: RedisServer): boolean =>
      nodeOf(redis, redisKeyOf(subject)) === `127.0.0.1:${server.port}`;
    const subjects = Array.from({ length: 30 }, (_, number) => `${number}`);
    const affected = subjects.filter((subject) => isOn(subject, failed));
    const others = subjects.filter((subject) => !isOn(subject, failed));
    expect([affected.length > 0, others.length > 0]).toEqual([true, true]);
    let rounds = 0;
    const consumeAll = async (): Promise<void> => {
      await Promise.all(subjects.map(async (subject) => store.consume(subject, ROOMY)));
      rounds++;
    };
    for (let round = 0; round < 20; round++) {
      await consumeAll();
    }
    const replicated = async (): Promise<boolean> => {
      const counts = await Promise.all(affected.map((subject) => countOnReplica(successor, subject)));
      return counts.every((count) => count === rounds);
    };
    await waitFor(replicated, 'the replica has all counts');
    const roundsBefore = rounds;
    await failed.kill();
    await waitFor(
      async () => {
        await consumeAll();
        return affected.every((subject) => isOn(subject, successor)) && !store.degraded;
      },
      'the replica has taken over',
      HEALED,
    );
    const countsBefore = await Promise.all(affected.map((subject) => countOf(successor, subject)));
    for (const count of countsBefore) {
      expect(count).toBeGreaterThanOrEqual(roundsBefore);
      expect(count).toBeLessThanOrEqual(rounds);
    }
    await consumeAll();
    expect(await Promise.all(affected.map((subject) => countOf(successor, subject)))).toEqual(
      countsBefore.map((count) => count + 1),
    );
    for (const subject of others) {
      const server = primaries.find((primary) => isOn(subject, primary))!;
      expect(await countOf(server, subject)).toBe(rounds);
    }
    expect(limits.logged.filter((line) => line.includes('unavailable'))).toEqual([
      expect.stringContaining(`Redis node 127.0.0.1:${failed.port} unavailable`),
    ]);
  });

  it('logs nothing while a replica node is unreachable', async () => {
    // Longer than the test, so that the cluster keeps the replica.
    const flags = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '120000'];
    const [primary, replica] = [await limits.startRedis(flags), await limits.startRedis(flags)];
    await formCluster([primary]);
    await replicate(replica, primary);
    const store = await limits.storeOn([primary.url, replica.url]);
    await replica.kill();
    const [redis] = limits.clients as [LimitRedis];
    // What the client reports each time when it happens to ask this node for the slots.
    for (let attempt = 0; attempt < 5; attempt++) {
      redis.emit('node error', new Error('connect ECONNREFUSED'), `127.0.0.1:${replica.port}`);
    }
    expect((await store.consume('a', ROOMY)).outcome).toBe('admitted');
    expect(limits.logged).toEqual([]);
    expect(store.degraded).toBe(false);
  });

  it('CLUSTERDOWN: counts in memory while the cluster lacks a shard', async () => {
    const flags = [
      '--cluster-enabled',
      'yes',
      '--cluster-node-timeout',
      '1000',
      '--cluster-require-full-coverage',
      'yes',
    ];
    const primaries = (await Promise.all([1, 2, 3].map(() => limits.startRedis(flags)))) as [
      RedisServer,
      RedisServer,
      RedisServer,
    ];
    await formCluster(primaries);
    const store = await limits.storeOn(primaries.map(({ url }) => url));
    const [removed] = primaries;
    await administrate(removed, (admin) => admin.call('CLUSTER', 'DELSLOTSRANGE', '0', '5000'));
    await waitFor(
      async () => {
        const verdicts = await Promise.all(
          Array.from({ length: 30 }, async (_, number) => store.consume(`${number}`, ROOMY)),
        );
        expect(new Set(verdicts.map(({ outcome }) => outcome))).toEqual(new Set(['admitted']));
        return store.degraded;
      },
      'the store is degraded',
      HEALED,
    );
    await administrate(removed, (admin) => admin.call('CLUSTER', 'ADDSLOTSRANGE', '0', '5000'));
    await waitFor(() => !store.degraded, 'the store is not degraded', HEALED);
    expect(new Set(limits.logged.filter((line) => line.includes('unavailable'))).size).toBeLessThanOrEqual(
      primaries.length,
    );
  });

  async function replicate(replica: RedisServer, primary: RedisServer): Promise<void> {
    const id = await administrate(primary, (admin) => admin.call('CLUSTER', 'MYID') as Promise<string>);
    await administrate(replica, async (admin) => {
      await admin.call('CLUSTER', 'MEET', '127.0.0.1', String(primary.port));
      await waitFor(async () => String(await admin.call('CLUSTER', 'NODES')).includes(id), 'the nodes have met');
      await admin.call('CLUSTER', 'REPLICATE', id);
      const isUp = async (): Promise<boolean> => (await admin.info('replication')).includes('master_link_status:up');
      await waitFor(isUp, 'the replica is connected');
    });
    await waitFor(
      async () =>
        String(await administrate(primary, (admin) => admin.call('CLUSTER', 'NODES'))).includes(`slave ${id}`),
      'the primary knows its replica',
    );
  }

  /** A replica redirects commands unless the connection asks to read from it. */
  async function countOnReplica(server: RedisServer, subject: string): Promise<number> {
    return administrate(server, async (admin) => {
      await admin.readonly();
      return Number(await admin.hget(redisKeyOf(subject), 'du'));
    });
  }
});
