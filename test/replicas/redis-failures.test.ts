import { Logger } from '@nestjs/common';
import { type Clock, systemClock } from '../../src/common/clock.js';
import type { Quotas } from '../../src/plans/plans.js';
import { rateLimitHeaders } from '../../src/rate-limit/headers.js';
import { connectRedis, type LimitRedis, nodeOf, untilReady } from '../../src/rate-limit/redis-connection.js';
import { RedisQuotaStore } from '../../src/rate-limit/redis-quota-store.js';
import { redisKeyOf } from '../../src/rate-limit/redis-scripts.js';
import type { Verdict } from '../../src/rate-limit/verdict.js';
import { formCluster } from '../helpers/redis-cluster.js';
import { describeWithRedis, RedisServer } from '../helpers/redis-server.js';
import { TcpProxy } from '../helpers/tcp-proxy.js';
import { waitFor } from '../helpers/wait-for.js';

jest.setTimeout(60_000);

const ROOMY: Quotas = { requestsPerMinute: 1_000_000, requestsPerDay: 1_000_000 };
const ONE: Quotas = { requestsPerMinute: 100, requestsPerDay: 1 };
const BAN_SECONDS = 300;
const BAN_RULE = { threshold: 3, windowSeconds: 60, durationSeconds: BAN_SECONDS };
/** Far longer than a remembered ban is used without asking Redis. */
const PROMPTLY = { withinMs: 5_000 };

const clients: LimitRedis[] = [];
let logged: string[];
let recoveries: number;
let bans: number;
beforeEach(() => {
  logged = [];
  recoveries = 0;
  bans = 0;
  for (const level of ['warn', 'error'] as const) {
    jest.spyOn(Logger.prototype, level).mockImplementation((...[message]: unknown[]) => {
      logged.push(String(message));
    });
  }
});
afterEach(() => {
  for (const client of clients.splice(0)) {
    client.disconnect();
  }
  jest.restoreAllMocks();
});

async function storeOn(urls: readonly string[], clock: Clock = systemClock): Promise<RedisQuotaStore> {
  const redis = connectRedis(urls);
  clients.push(redis);
  const store = new RedisQuotaStore({
    redis,
    clock,
    banRule: BAN_RULE,
    onBan: () => bans++,
    onRecovered: () => recoveries++,
  });
  await untilReady(redis, 5_000);
  return store;
}

async function countOf(server: RedisServer, subject: string): Promise<number> {
  const redis = server.connect();
  const count = Number(await redis.hget(redisKeyOf(subject), 'du'));
  redis.disconnect();
  return count;
}

/** Commands that a server has rejected because it is a replica. */
async function rejectedWritesOf(server: RedisServer): Promise<number> {
  const redis = server.connect();
  const [, count] = /errorstat_READONLY:count=(\d+)/.exec(await redis.info('errorstats')) ?? [];
  redis.disconnect();
  return Number(count ?? 0);
}

async function ban(store: RedisQuotaStore, subject: string): Promise<void> {
  await waitFor(async () => (await store.consume(subject, ONE)).outcome === 'banned', `${subject} is banned`);
}

/** One failed and one restored connection: each change of state is logged once. */
function expectOneOutage(): void {
  expect(logged.filter((line) => line.includes('unavailable'))).toHaveLength(1);
  expect(logged.filter((line) => line.includes('available again'))).toHaveLength(1);
  expect(recoveries).toBe(1);
}

describeWithRedis('when Redis fails over', () => {
  let primary: RedisServer;
  let standby: RedisServer;
  let proxy: TcpProxy;
  beforeEach(async () => {
    [primary, standby] = await Promise.all([RedisServer.start(), RedisServer.start()]);
    proxy = await TcpProxy.start(primary.url);
  });
  afterEach(async () => {
    await proxy.close();
    await Promise.all([primary.stop(), standby.stop()]);
  });

  async function demote(): Promise<void> {
    const admin = primary.connect();
    await admin.replicaof('127.0.0.1', standby.port);
    admin.disconnect();
  }

  it('counts in the new primary although the connection to the demoted one stays open', async () => {
    const store = await storeOn([proxy.urlFor(primary.url)]);
    await store.consume('key:a', ROOMY);
    await demote();
    proxy.retarget(standby.url);
    await waitFor(async () => {
      await store.consume('key:b', ROOMY);
      return (await countOf(standby, 'key:b')) > 0;
    }, 'requests are counted in the new primary');
    await waitFor(() => !store.degraded, 'the store is not degraded');
    expect((await store.consume('key:a', ROOMY)).outcome).toBe('admitted');
  });

  it('stays degraded, without log lines in between, until the server accepts writes', async () => {
    const store = await storeOn([primary.url]);
    await demote();
    await waitFor(async () => {
      await store.consume('key:a', ROOMY);
      return store.degraded;
    }, 'the store is degraded');
    const rejectedBefore = await rejectedWritesOf(primary);
    await waitFor(async () => (await rejectedWritesOf(primary)) >= rejectedBefore + 2, 'Redis is probed twice');
    expect(store.degraded).toBe(true);
    const admin = primary.connect();
    await admin.replicaof('NO', 'ONE');
    admin.disconnect();
    await waitFor(() => !store.degraded, 'the store is not degraded');
    expectOneOutage();
  });

  it('replaces a connection on which Redis no longer replies', async () => {
    const store = await storeOn([proxy.urlFor(primary.url)]);
    await store.consume('key:a', ROOMY);
    proxy.dropSilently();
    await waitFor(async () => {
      await store.consume('key:b', ROOMY);
      return (await countOf(primary, 'key:b')) > 0;
    }, 'requests are counted in Redis again');
    await waitFor(() => !store.degraded, 'the store is not degraded');
    expectOneOutage();
  });

  it('ends the bans of the outage when Redis is back, also for a later failure', async () => {
    const store = await storeOn([primary.url]);
    await primary.kill();
    await waitFor(() => store.degraded, 'the store is degraded');
    await ban(store, 'key:a');
    await primary.restart();
    await waitFor(() => !store.degraded, 'the store is not degraded');
    expect((await store.consume('key:a', ROOMY)).outcome).toBe('admitted');
    await primary.kill();
    expect((await store.consume('key:a', ROOMY)).outcome).toBe('admitted');
    expectOneOutage();
  });
});

describeWithRedis('replicas that share a Redis', () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server.stop());

  it('ban a caller with the rejection that reaches the threshold, whichever replicas it asks', async () => {
    const stores = await Promise.all([1, 2, 3].map(() => storeOn([server.url])));
    const verdicts: Verdict[] = [];
    for (let request = 0; request < 7; request++) {
      verdicts.push(await stores[request % 3]!.consume('key:shared', ONE));
    }
    const banned = Array<string>(4).fill('banned');
    expect(verdicts.map(({ outcome }) => outcome)).toEqual(['admitted', 'limited', 'limited', ...banned]);
    expect(new Set(verdicts.slice(3).map(({ bannedUntilMs }) => bannedUntilMs)).size).toBe(1);
    expect(bans).toBe(1);
  });

  it('count requests without a valid key in memory only', async () => {
    const store = await storeOn([server.url]);
    expect((await store.consume('address:203.0.113.7', ONE)).outcome).toBe('admitted');
    await ban(store, 'address:203.0.113.7');
    const admin = server.connect();
    const names = await admin.keys('*address*');
    admin.disconnect();
    expect(names).toEqual([]);
  });

  it.each([
    { what: 'a value of another type', command: ['SET', 'x'], error: 'WRONGTYPE' },
    { what: 'a count that the script cannot use', command: ['HSET', 'bu', '-inf', 'rs', 'inf'], error: 'ERR' },
  ])('count a key with $what in memory, log it once and count all others in Redis', async ({ command, error }) => {
    const store = await storeOn([server.url]);
    const subject = `key:${error}`;
    const [name, ...values] = command as [string, ...string[]];
    const admin = server.connect();
    await admin.call(name, redisKeyOf(subject), ...values);
    admin.disconnect();
    const remaining: number[] = [];
    for (let request = 0; request < 5; request++) {
      remaining.push((await store.consume(subject, ROOMY)).day.remaining);
      await store.consume(`key:beside-${error}`, ROOMY);
    }
    expect(remaining).toEqual([999_999, 999_998, 999_997, 999_996, 999_995]);
    expect(await countOf(server, `key:beside-${error}`)).toBe(5);
    expect(logged).toEqual([expect.stringMatching(`${subject}.*${error}`)]);
    expect([store.degraded, recoveries]).toEqual([false, 0]);
  });

  it('admit a caller whose ban was lifted, even if the notification was lost', async () => {
    const store = await storeOn([server.url]);
    await ban(store, 'key:lifted');
    const admin = server.connect();
    await waitFor(async () => (await admin.hdel(redisKeyOf('key:lifted'), 'bu')) === 1, 'the ban is removed');
    admin.disconnect();
    const more: Quotas = { requestsPerMinute: 100, requestsPerDay: 100 };
    await waitFor(async () => (await store.consume('key:lifted', more)).outcome === 'admitted', 'admitted', PROMPTLY);
    expect(logged).toEqual([]);
  });

  it('admit a caller whose ban one of them has lifted, with its counts', async () => {
    const [one, other] = await Promise.all([storeOn([server.url]), storeOn([server.url])]);
    await ban(one, 'key:unbanned');
    expect((await other.consume('key:unbanned', ONE)).outcome).toBe('banned');
    one.liftBan('key:unbanned');
    const more: Quotas = { requestsPerMinute: 100, requestsPerDay: 100 };
    for (const [store, remaining] of [
      [one, 98],
      [other, 97],
    ] as const) {
      let verdict = await store.consume('key:unbanned', more);
      await waitFor(
        async () => {
          verdict = verdict.outcome === 'banned' ? await store.consume('key:unbanned', more) : verdict;
          return verdict.outcome === 'admitted';
        },
        'the caller is admitted',
        PROMPTLY,
      );
      expect(verdict.day.remaining).toBe(remaining);
    }
  });

  it('send Retry-After for the whole ban when the clock of a replica is 10 minutes behind', async () => {
    const behind: Clock = { now: () => Date.now() - 600_000 };
    const store = await storeOn([server.url], behind);
    await ban(store, 'key:clock');
    const other = await storeOn([server.url], behind);
    for (const replica of [store, other]) {
      const verdict = await replica.consume('key:clock', ONE);
      expect(verdict.outcome).toBe('banned');
      const headers = new Map(rateLimitHeaders(verdict));
      expect(Math.abs(Number(headers.get('Retry-After')) - BAN_SECONDS)).toBeLessThanOrEqual(2);
      expect(Math.abs(Number(headers.get('X-RateLimit-Reset')) - Date.now() / 1_000 - BAN_SECONDS)).toBeLessThan(3);
    }
  });

  it('ask Redis at most once a second about a subject over its limit', async () => {
    const store = await storeOn([server.url]);
    await store.consume('key:flood', ONE);
    await store.consume('key:flood', ONE);
    const before = (await server.commandCounts()).evalsha ?? 0;
    const start = performance.now();
    for (let request = 0; request < 2_000; request++) {
      expect((await store.consume('key:flood', ONE)).outcome).not.toBe('admitted');
    }
    const seconds = (performance.now() - start) / 1_000;
    // Two more until the third rejection starts a ban.
    expect(((await server.commandCounts()).evalsha ?? 0) - before).toBeLessThanOrEqual(seconds + 2);
  });
});

describeWithRedis('when one shard of a Redis Cluster fails', () => {
  it('counts in Redis for the other shards, and logs one line for the failed node', async () => {
    const flags = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '2000'];
    const masters = await Promise.all(
      [1, 2, 3].map(() => RedisServer.start([...flags, '--cluster-require-full-coverage', 'no'])),
    );
    await formCluster(masters);
    const [failed, ...live] = masters as [RedisServer, RedisServer, RedisServer];
    const store = await storeOn(masters.map(({ url }) => url));
    const [redis] = clients as [LimitRedis];
    const failedNode = `127.0.0.1:${failed.port}`;
    const subjects = Array.from({ length: 30 }, (_, number) => `key:${number}`);
    const isOnLiveNode = (subject: string): boolean => nodeOf(redis, redisKeyOf(subject)) !== failedNode;
    const onLiveNodes = subjects.filter(isOnLiveNode);
    expect(onLiveNodes.length).toBeLessThan(subjects.length);
    expect(onLiveNodes.length).toBeGreaterThan(0);
    await failed.kill();
    const startedAtMs = performance.now();
    let rounds = 0;
    await waitFor(
      async () => {
        await Promise.all(subjects.map(async (subject) => store.consume(subject, ROOMY)));
        rounds++;
        // Past the time after which the cluster itself takes the node for failed.
        return rounds >= 20 && performance.now() - startedAtMs > 4_000;
      },
      'requests are sent during the failure',
      { withinMs: 30_000 },
    );
    const countOfLive = async (subject: string): Promise<number> => {
      const server = live.find(({ port }) => nodeOf(redis, redisKeyOf(subject)).endsWith(`:${port}`));
      return server === undefined ? 0 : countOf(server, subject);
    };
    const totals = await Promise.all(onLiveNodes.map(countOfLive));
    // A command that takes longer than its timeout, because the machine is busy, is counted in memory.
    expect(Math.min(...totals)).toBeGreaterThan(0.9 * rounds);
    expect(Math.max(...totals)).toBeLessThanOrEqual(rounds);
    expect(store.degraded).toBe(true);
    expect(logged.filter((line) => line.includes('unavailable'))).toEqual([
      expect.stringContaining(`Redis node ${failedNode} unavailable`),
    ]);
    await Promise.all(masters.map((master) => master.stop()));
  });
});
