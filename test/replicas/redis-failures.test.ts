import { once } from 'node:events';
import { connect } from 'node:net';
import type { Redis } from 'ioredis';
import type { Clock } from '../../src/common/clock.js';
import type { Quotas } from '../../src/plans/plans.js';
import { rateLimitHeaders } from '../../src/rate-limit/headers.js';
import type { RedisQuotaStore } from '../../src/rate-limit/redis-quota-store.js';
import { connectRedis, untilReady } from '../../src/rate-limit/redis-connection.js';
import { consumeArguments, redisKeyOf } from '../../src/rate-limit/redis-script.js';
import type { Verdict } from '../../src/rate-limit/decision.js';
import {
  administrate,
  BAN_RULE,
  countOf,
  expectFallback,
  expectRecovery,
  RedisLimits,
  ROOMY,
  SERVICE_COMMANDS,
  untilRecovered,
} from '../helpers/redis-limits.js';
import { describeWithRedis, type RedisServer } from '../helpers/redis-server.js';
import { type TcpProxy } from '../helpers/tcp-proxy.js';
import { waitFor } from '../helpers/wait-for.js';

const ONE: Quotas = { requestsPerMinute: 100, requestsPerDay: 1 };
/** Far longer than a remembered ban is used without asking Redis, and far shorter than the ban. */
const PROMPTLY = { withinMs: 60_000 };

RedisLimits.use();

/** Commands that a server has rejected because it is a replica. */
async function rejectedWritesOf(server: RedisServer): Promise<number> {
  const errors = await administrate(server, (admin) => admin.info('errorstats'));
  return Number(/errorstat_READONLY:count=(\d+)/.exec(errors)?.[1] ?? 0);
}

/** Of all connections but this one. */
async function connectionIds(admin: Redis): Promise<string[]> {
  const ids = Array.from(String(await admin.client('LIST')).matchAll(/^id=(\d+)/gm), ([, id = '']) => id);
  const own = await admin.client('ID');
  return ids.filter((id) => Number(id) !== own);
}

/** Moves the start of the grace of a subject back, past the time in which its rejections do not count. */
function letInFlightPass(subject: string): (admin: Redis) => Promise<unknown> {
  return (admin) => admin.hincrby(redisKeyOf(subject), 'gs', -2_000);
}

async function ban(store: RedisQuotaStore, subject: string): Promise<void> {
  await waitFor(async () => (await store.consume(subject, ONE)).outcome === 'banned', `${subject} is banned`);
}

describeWithRedis('when Redis fails over', () => {
  const startPair = async (
    limits: RedisLimits,
  ): Promise<{ primary: RedisServer; standby: RedisServer; proxy: TcpProxy }> => {
    const [primary, standby] = await Promise.all([limits.startRedis(), limits.startRedis()]);
    return { primary, standby, proxy: await limits.startProxy(primary) };
  };
  const demote = (primary: RedisServer, standby: RedisServer): Promise<unknown> =>
    administrate(primary, (admin) => admin.replicaof('127.0.0.1', standby.port));
  const promote = (server: RedisServer): Promise<unknown> =>
    administrate(server, (admin) => admin.replicaof('NO', 'ONE'));

  it.concurrent(
    'continues with the counts of the replica when the primary is killed and the replica promoted',
    async () => {
      const limits = new RedisLimits();
      const { primary, standby, proxy } = await startPair(limits);
      const store = await limits.storeOn(proxy.urlFor(primary.url));
      await administrate(standby, (admin) => admin.replicaof('127.0.0.1', primary.port));
      await Promise.all(Array.from({ length: 50 }, async () => store.consume('b', ROOMY)));
      await waitFor(async () => (await countOf(standby, 'b')) === 50, 'the replica has all counts');
      await primary.kill();
      await expectFallback(store);
      await promote(standby);
      proxy.retarget(standby.url);
      await expectRecovery(store, standby, limits.logged);
      await store.consume('b', ROOMY);
      expect(await countOf(standby, 'b')).toBe(51);
    },
  );

  it.concurrent('counts in the new primary although the connection to the demoted one stays open', async () => {
    const limits = new RedisLimits();
    const { primary, standby, proxy } = await startPair(limits);
    const store = await limits.storeOn(proxy.urlFor(primary.url));
    await store.consume('a', ROOMY);
    await demote(primary, standby);
    proxy.retarget(standby.url);
    await waitFor(async () => {
      await store.consume('b', ROOMY);
      return (await countOf(standby, 'b')) > 0;
    }, 'requests are counted in the new primary');
    await untilRecovered(store);
    expect((await store.consume('a', ROOMY)).outcome).toBe('admitted');
  });

  it.concurrent('stays degraded, without log lines in between, until the server accepts writes', async () => {
    const limits = new RedisLimits();
    const { primary, standby } = await startPair(limits);
    const store = await limits.storeOn(primary.url);
    await demote(primary, standby);
    await waitFor(async () => {
      await store.consume('a', ROOMY);
      return store.degraded;
    }, 'the store is degraded');
    const rejectedBefore = await rejectedWritesOf(primary);
    const start = performance.now();
    await waitFor(async () => {
      await store.consume('a', ROOMY);
      return (await rejectedWritesOf(primary)) >= rejectedBefore + 2;
    }, 'Redis is probed twice');
    expect(performance.now() - start).toBeGreaterThan(1_000);
    expect(store.degraded).toBe(true);
    await promote(primary);
    await expectRecovery(store, primary, limits.logged);
  });

  it.concurrent('replaces a connection on which Redis no longer replies', async () => {
    const limits = new RedisLimits();
    const { primary, proxy } = await startPair(limits);
    const store = await limits.storeOn(proxy.urlFor(primary.url));
    await store.consume('a', ROOMY);
    proxy.dropSilently();
    await waitFor(async () => {
      await store.consume('b', ROOMY);
      return (await countOf(primary, 'b')) > 0;
    }, 'requests are counted in Redis again');
    await expectRecovery(store, primary, limits.logged);
  });

  it.concurrent('replaces a connection on which Redis does not reply from the beginning', async () => {
    const limits = new RedisLimits();
    const { primary, proxy } = await startPair(limits);
    proxy.stall();
    const store = await limits.storeOn(proxy.urlFor(primary.url));
    await waitFor(() => proxy.connections === 1, 'a connection waits for its first replies');
    proxy.dropSilently();
    proxy.restore();
    await waitFor(async () => {
      await store.consume('b', ROOMY);
      return (await countOf(primary, 'b')) > 0;
    }, 'requests are counted in Redis');
    expect(store.degraded).toBe(false);
  });

  it.concurrent('ends the bans of the outage when Redis is back, also for a later failure', async () => {
    const limits = new RedisLimits();
    const primary = await limits.startRedis();
    const store = await limits.storeOn(primary.url);
    await primary.kill();
    await waitFor(() => store.degraded, 'the store is degraded');
    await ban(store, 'a');
    await primary.restart();
    await untilRecovered(store);
    expect((await store.consume('a', ROOMY)).outcome).toBe('admitted');
    await primary.kill();
    expect((await store.consume('a', ROOMY)).outcome).toBe('admitted');
    expect(limits.recoveries).toBe(1);
  });
});

describeWithRedis('while no request arrives', () => {
  it.concurrent('uses its connection, which Redis does not close for being idle', async () => {
    const limits = new RedisLimits();
    const server = await limits.startRedis(['--timeout', '3']);
    await limits.storeOn(server.url);
    await administrate(server, async (admin) => {
      await waitFor(async () => (await connectionIds(admin)).length === 1, 'only the store is connected');
      const before = await connectionIds(admin);
      await once(connect(server.port, '127.0.0.1').resume(), 'close');
      expect(await connectionIds(admin)).toEqual(before);
    });
  });

  it.concurrent('finds out that Redis is down, and that it is back', async () => {
    const limits = new RedisLimits();
    const server = await limits.startRedis();
    const store = await limits.storeOn(server.url);
    await server.kill();
    await waitFor(() => store.degraded, 'the store is degraded');
    await server.restart();
    await waitFor(() => !store.degraded, 'the store is not degraded');
    expect(limits.recoveries).toBe(1);
  });

  it.concurrent.each(['time', 'hset', 'pexpireat'])(
    'finds out that its user lacks the right to %s',
    async (command) => {
      const limits = new RedisLimits();
      const user = ['--user', 'limiter', 'on', '>secret', '~petstore:*', ...SERVICE_COMMANDS, `-${command}`];
      const server = await limits.startRedis(user);
      const store = await limits.storeOn(server.url.replace('redis://', 'redis://limiter:secret@'));
      await waitFor(() => store.degraded, 'the store is degraded');
      await administrate(server, (admin) => admin.acl('SETUSER', 'limiter', `+${command}`));
      await waitFor(() => !store.degraded, 'the store is not degraded');
      expect(limits.recoveries).toBe(1);
    },
  );
});

describeWithRedis('replicas that share a Redis', () => {
  it.concurrent('ban a caller with the rejection that reaches the threshold, whichever replicas it asks', async () => {
    const limits = new RedisLimits();
    const server = await limits.startRedis();
    const stores = await Promise.all([1, 2, 3].map(() => limits.storeOn(server.url)));
    const verdicts: Verdict[] = [];
    for (let request = 0; request < 7; request++) {
      verdicts.push(await stores[request % 3]!.consume('shared', ONE));
      if (request === 1) {
        await administrate(server, letInFlightPass('shared'));
      }
    }
    const banned = Array<string>(4).fill('banned');
    expect(verdicts.map(({ outcome }) => outcome)).toEqual(['admitted', 'limited', 'limited', ...banned]);
    expect(new Set(verdicts.slice(3).map(({ day }) => day.resetAtSeconds)).size).toBe(1);
    expect(limits.bans).toBe(1);
  });

  it.concurrent.each([
    { what: 'a value of another type', command: ['SET', 'x'], error: 'WRONGTYPE' },
    { what: 'a count that the script cannot use', command: ['HSET', 'bu', '-inf', 'rs', 'inf'], error: 'ERR' },
  ])('count a key with $what in memory, log it once and count all others in Redis', async ({ command, error }) => {
    const limits = new RedisLimits();
    const server = await limits.startRedis();
    const store = await limits.storeOn(server.url);
    const subject = error;
    const [name, ...values] = command as [string, ...string[]];
    await administrate(server, (admin) => admin.call(name, redisKeyOf(subject), ...values));
    const remaining: number[] = [];
    for (let request = 0; request < 5; request++) {
      remaining.push((await store.consume(subject, ROOMY)).day.remaining);
      await store.consume(`beside-${error}`, ROOMY);
    }
    expect(remaining).toEqual([999_999, 999_998, 999_997, 999_996, 999_995]);
    expect(await countOf(server, `beside-${error}`)).toBe(5);
    expect(limits.logged).toEqual([expect.stringMatching(`${subject}.*${error}`)]);
    expect([store.degraded, limits.recoveries]).toEqual([false, 0]);
  });

  it.concurrent(
    'admit a caller whose ban one of them has lifted, with its counts, without a notification of the other',
    async () => {
      const limits = new RedisLimits();
      const server = await limits.startRedis();
      const [one, other] = await Promise.all([limits.storeOn(server.url), limits.storeOn(server.url)]);
      await ban(one, 'unbanned');
      expect((await other.consume('unbanned', ONE)).outcome).toBe('banned');
      one.liftBan('unbanned');
      const more: Quotas = { requestsPerMinute: 100, requestsPerDay: 100 };
      for (const [store, remaining] of [
        [one, 98],
        [other, 97],
      ] as const) {
        let verdict = await store.consume('unbanned', more);
        await waitFor(
          async () => {
            verdict = verdict.outcome === 'banned' ? await store.consume('unbanned', more) : verdict;
            return verdict.outcome === 'admitted';
          },
          'the caller is admitted',
          PROMPTLY,
        );
        expect(verdict.day.remaining).toBe(remaining);
      }
    },
  );

  it.concurrent('admit no request too many when Redis closes their connections', async () => {
    const limits = new RedisLimits();
    const server = await limits.startRedis();
    const stores = await Promise.all([1, 2, 3].map(() => limits.storeOn(server.url)));
    const quotas: Quotas = { requestsPerMinute: 1_000_000, requestsPerDay: 600 };
    let admitted = 0;
    const caller = async (store: RedisQuotaStore): Promise<void> => {
      for (let request = 0; request < 100; request++) {
        const { outcome } = await store.consume('steady', quotas);
        admitted += outcome === 'admitted' ? 1 : 0;
      }
    };
    const callers = Promise.all(stores.flatMap((store) => Array.from({ length: 10 }, async () => caller(store))));
    for (const share of [100, 300, 500]) {
      await waitFor(() => admitted >= share, 'a part of the quota is used');
      await administrate(server, (admin) => admin.call('CLIENT', 'KILL', 'TYPE', 'normal'));
    }
    await callers;
    expect(limits.logged).toEqual([]);
    // A request whose reply is lost with the connection counts twice: as many as are in flight, each of three times.
    expect(admitted).toBeLessThanOrEqual(600);
    expect(admitted).toBeGreaterThanOrEqual(600 - 3 * stores.length * 10);
    expect(await countOf(server, 'steady')).toBe(600);
  });

  it.concurrent('reject requests over a limit whose connection is lost before the reply', async () => {
    const limits = new RedisLimits();
    const server = await limits.startRedis();
    const proxy = await limits.startProxy(server);
    const store = await limits.storeOn(proxy.urlFor(server.url));
    expect((await store.consume('cut', ONE)).outcome).toBe('admitted');
    const cut = proxy.after(redisKeyOf('cut'), () => {
      proxy.closeConnections();
    });
    const verdicts = await Promise.all(Array.from({ length: 20 }, async () => store.consume('cut', ONE)));
    await cut;
    expect(new Set(verdicts.map(({ outcome }) => outcome))).toEqual(new Set(['limited']));
    expect(store.degraded).toBe(false);
  });

  it.concurrent('send Retry-After for the whole ban when the clock of a replica is 10 minutes behind', async () => {
    const limits = new RedisLimits();
    const server = await limits.startRedis();
    const behind: Clock = { now: () => Date.now() - 600_000 };
    const store = await limits.storeOn(server.url, behind);
    await ban(store, 'clock');
    const other = await limits.storeOn(server.url, behind);
    for (const replica of [store, other]) {
      const verdict = await replica.consume('clock', ONE);
      expect(verdict.outcome).toBe('banned');
      const headers = new Map(rateLimitHeaders(verdict));
      const resetInSeconds = Number(headers.get('X-RateLimit-Reset')) - Date.now() / 1_000;
      for (const seconds of [Number(headers.get('Retry-After')), resetInSeconds]) {
        expect(Math.abs(seconds - BAN_RULE.durationSeconds)).toBeLessThan(60);
      }
    }
  });
});

describeWithRedis('when Redis has evicted the script', () => {
  // The commands themselves, because the store gives a busy machine only 100 ms for one.
  it.concurrent('each request of a pipeline is counted once', async () => {
    const limits = new RedisLimits();
    const server = await limits.startRedis();
    const redis = connectRedis(server.url);
    redis.on('error', () => undefined);
    await untilReady(redis);
    const values = consumeArguments(ROOMY, BAN_RULE);
    let counted = 0;
    await administrate(server, async (admin) => {
      for (let flush = 0; flush < 20; flush++) {
        const burst = Array.from({ length: 50 }, () => redis.consume(redisKeyOf('evicted'), ...values));
        const [, replies] = await Promise.all([admin.script('FLUSH'), Promise.all(burst)]);
        counted += replies.filter(([, isCounted]) => isCounted === 1).length;
      }
    });
    redis.disconnect();
    expect([counted, await countOf(server, 'evicted')]).toEqual([1_000, 1_000]);
  });
});

describeWithRedis('when the clock of Redis was a day ahead', () => {
  it.concurrent('ends a ban and a ban window that began then after their time from now', async () => {
    const limits = new RedisLimits();
    const server = await limits.startRedis();
    const store = await limits.storeOn(server.url);
    const aheadMs = Date.now() + 86_400_000;
    await administrate(server, async (admin) => {
      await admin.hset(redisKeyOf('banned'), 'bu', aheadMs);
      await admin.hset(redisKeyOf('limited'), 'rs', aheadMs, 'rc', BAN_RULE.threshold - 1);
      const verdicts = [
        await store.consume('banned', ONE),
        await store.consume('limited', ONE),
        await store.consume('limited', ONE),
      ];
      expect(verdicts.map(({ outcome }) => outcome)).toEqual(['banned', 'admitted', 'limited']);
      const [bannedUntil, windowStart] = [
        Number(await admin.hget(redisKeyOf('banned'), 'bu')),
        Number(await admin.hget(redisKeyOf('limited'), 'rs')),
      ];
      expect(bannedUntil).toBeLessThanOrEqual(Date.now() + BAN_RULE.durationSeconds * 1_000);
      expect(windowStart).toBeLessThanOrEqual(Date.now());
      expect(verdicts[0]!.day.resetAtSeconds).toBe(Math.ceil(bannedUntil / 1_000));
    });
  });
});

// Last: those that run at the same time would get no processor, or take the one that these need.
describeWithRedis('a limit store', () => {
  it('keeps its connection to a Redis that is only slow', async () => {
    const limits = new RedisLimits();
    const server = await limits.startRedis();
    const store = await limits.storeOn(server.url);
    await store.consume('a', ROOMY);
    await administrate(server, async (admin) => {
      const before = await connectionIds(admin);
      expect(before).toHaveLength(1);
      await admin.client('PAUSE', 500);
      await expectFallback(store);
      await untilRecovered(store);
      expect(await connectionIds(admin)).toEqual(before);
    });
  });

  it('admits as many requests as Redis, whose replies are in the socket afterwards, when it got no processor for a while', async () => {
    const limits = new RedisLimits();
    const server = await limits.startRedis();
    const store = await limits.storeOn(server.url);
    await store.consume('warm-up', ROOMY);
    const quotas: Quotas = { requestsPerMinute: 1_000, requestsPerDay: 300 };
    const burst = async (): Promise<number> => {
      const verdicts = Promise.all(Array.from({ length: 300 }, async () => store.consume('paused', quotas)));
      // Commands are written in the turn of the event loop in which they are sent.
      await new Promise(setImmediate);
      const endsAt = performance.now() + 2_500;
      while (performance.now() < endsAt);
      return (await verdicts).filter(({ outcome }) => outcome === 'admitted').length;
    };
    expect([await burst(), await burst(), await countOf(server, 'paused')]).toEqual([300, 0, 300]);
    expect(limits.logged).toEqual([]);
  });

  it('asks Redis at most once a second about a banned subject', async () => {
    const limits = new RedisLimits();
    const server = await limits.startRedis();
    const store = await limits.storeOn(server.url);
    await ban(store, 'flood');
    const before = (await server.commandCounts()).evalsha ?? 0;
    const start = performance.now();
    for (let request = 0; request < 2_000; request++) {
      expect((await store.consume('flood', ONE)).outcome).toBe('banned');
    }
    const seconds = (performance.now() - start) / 1_000;
    // And as many probes.
    expect(((await server.commandCounts()).evalsha ?? 0) - before).toBeLessThanOrEqual(2 * (seconds + 1));
  });
});
