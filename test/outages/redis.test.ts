import { RedisQuotaStore } from '../../src/rate-limit/redis-quota-store.js';
import { liftBanInRedis } from '../../src/rate-limit/redis-admin.js';
import { createRedis, openRedis } from '../../src/rate-limit/redis-connection.js';
import { redisKeyOf } from '../../src/rate-limit/redis-script.js';
import { call, errorOf } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { describeWithRedis, RedisServer } from '../helpers/redis-server.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { TcpProxy } from '../helpers/tcp-proxy.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

const database = useTestDatabase();

/** What the test has started, the last one first. */
const started: (() => unknown)[] = [];
const logged: string[] = [];
afterEach(async () => {
  for (const end of started.splice(0).reverse()) {
    await end();
  }
  logged.length = 0;
});

async function startRedis(): Promise<RedisServer> {
  const redis = await RedisServer.start();
  started.push(() => {
    redis.thaw();
    return redis.stop();
  });
  return redis;
}

async function startService(redisUrl: string): Promise<TestService> {
  const log = (message: unknown): unknown => logged.push(String(message));
  const service = await startTestService({
    database,
    logger: { log: () => undefined, warn: log, error: log },
    environment: { REDIS_URL: redisUrl, RATE_LIMIT_BAN_THRESHOLD: '3' },
  });
  started.push(() => service.stop());
  return service;
}

const roomyKey = (): Promise<{ id: string; key: string }> =>
  insertKey(database.db, { requests_per_minute: 1_000_000, requests_per_day: 1_000_000 });
const request = (service: { baseUrl: string }, key?: string): Promise<Response> =>
  call(service.baseUrl, 'GET', '/nothing-here', key);
const codeOf = async (service: TestService, key: string): Promise<string> =>
  (await errorOf(await request(service, key))).code;

/** Sends requests until they are counted in memory: all are admitted, and none waits for Redis for long. */
async function untilDegraded(service: TestService, key: string): Promise<void> {
  let slowestMs = 0;
  await waitFor(async () => {
    const sentMs = performance.now();
    const responses = await Promise.all([1, 2, 3].map(() => request(service, key)));
    slowestMs = Math.max(slowestMs, performance.now() - sentMs);
    expect(responses.map(({ status }) => status)).toEqual([404, 404, 404]);
    return logged.length > 0;
  }, 'requests are counted in memory');
  // 100 ms, on a busy machine.
  expect(slowestMs).toBeLessThan(2_000);
}

async function untilRecovered(service: TestService, key: string): Promise<void> {
  await waitFor(async () => {
    expect((await request(service, key)).status).toBe(404);
    return logged.length > 1;
  }, 'requests are counted in Redis again');
}

/** The requests of a key on this day, as a server has them. */
const countOf = (server: RedisServer, keyId: string): Promise<number> =>
  server.administrate(async (admin) => Number(await admin.hget(redisKeyOf(keyId), 'du')));

type Step = (redis: RedisServer) => unknown;

const OUTAGES: [what: string, begin: Step, end: Step, reason: string][] = [
  // Without a connection, the error of a command may come first.
  ['it is killed', (redis) => redis.kill(), (redis) => redis.restart(), ''],
  [
    'it is suspended',
    (redis) => {
      redis.freeze();
    },
    (redis) => {
      redis.thaw();
    },
    'no response within 100 ms',
  ],
  [
    'its memory is full',
    (redis) => redis.administrate((admin) => admin.config('SET', 'maxmemory', '1')),
    (redis) => redis.administrate((admin) => admin.config('SET', 'maxmemory', '0')),
    'OOM',
  ],
];

describeWithRedis('a service whose Redis fails', () => {
  it.each(OUTAGES)(
    'counts in memory while %s, and in Redis afterwards, and logs each once',
    async (_what, begin, end, reason) => {
      const redis = await startRedis();
      const service = await startService(redis.url);
      const roomy = await roomyKey();
      const small = await insertKey(database.db, { requests_per_minute: 9, requests_per_day: 1 });
      const untilCounted = async (counted: number): Promise<void> =>
        waitFor(async () => {
          await request(service, roomy.key);
          return (await countOf(redis, roomy.id)) > counted;
        }, 'a request is counted in Redis');
      await untilCounted(0);

      await begin(redis);
      await untilDegraded(service, roomy.key);
      expect(logged).toEqual([expect.stringMatching(/^Redis unavailable \(.+\), counting in memory$/)]);
      expect(logged[0]).toContain(reason);
      const statuses = [(await request(service, small.key)).status, (await request(service, small.key)).status];
      expect(statuses).toEqual([404, 429]);

      await end(redis);
      await untilRecovered(service, roomy.key);
      await untilCounted(await countOf(redis, roomy.id));
      expect(logged.slice(1)).toEqual(['Redis available again, counting in Redis']);
    },
  );

  it('counts in Redis after failures of which no three are in a row', async () => {
    const redis = await startRedis();
    const service = await startService(redis.url);
    const { id, key } = await roomyKey();
    await request(service, key);
    for (let failures = 1; failures <= 3; failures++) {
      await redis.administrate((admin) => admin.config('SET', 'maxmemory', '1'));
      const counted = await countOf(redis, id);
      await request(service, key);
      expect(await countOf(redis, id)).toBe(counted);
      await redis.administrate((admin) => admin.config('SET', 'maxmemory', '0'));
      await request(service, key);
      expect(await countOf(redis, id)).toBe(counted + 1);
    }
    expect(logged).toEqual([]);
  });

  it('starts without it, and counts in it when it is available', async () => {
    const redis = await startRedis();
    await redis.kill();
    const service = await startService(redis.url);
    const { id, key } = await roomyKey();
    expect(logged).toEqual([expect.stringContaining('Redis unavailable (connect ECONNREFUSED')]);
    expect((await request(service, key)).status).toBe(404);
    await redis.restart();
    await untilRecovered(service, key);
    expect(await countOf(redis, id)).toBeGreaterThan(0);
  });

  it('has bans of its own meanwhile, which an operator can lift and neither a restart nor Redis keeps', async () => {
    const redis = await startRedis();
    const service = await startService(redis.url);
    const quotas = { requests_per_minute: 1, requests_per_day: 9 };
    const [lifted, kept] = [await insertKey(database.db, quotas), await insertKey(database.db, quotas)];
    await redis.kill();
    const roomy = await roomyKey();
    await untilDegraded(service, roomy.key);
    for (const { key } of [lifted, kept]) {
      const codes = [await codeOf(service, key), await codeOf(service, key)];
      // Later than what may have been in flight at the first rejection.
      service.clock.advance(2_000);
      codes.push(await codeOf(service, key), await codeOf(service, key));
      const limited = 'rate_limit_exceeded';
      expect(codes).toEqual(['route_not_found', limited, limited, 'api_key_banned']);
    }
    await database.db.query("SELECT pg_notify('api_key_unbanned', $1)", [lifted.id]);
    const isLifted = async (): Promise<boolean> => (await codeOf(service, lifted.key)) === 'rate_limit_exceeded';
    await waitFor(isLifted, 'the ban of the key is lifted');
    expect(await codeOf(service, kept.key)).toBe('api_key_banned');
    expect(await codeOf(await startService(redis.url), kept.key)).toBe('route_not_found');
    // The restarted one, which would log, too.
    await started.pop()?.();
    logged.splice(1);
    await redis.restart();
    await untilRecovered(service, roomy.key);
    expect(await codeOf(service, kept.key)).toBe('route_not_found');
  });

  it('counts in the new primary after a failover, although the connection to the old one stays open', async () => {
    const [primary, standby] = [await startRedis(), await startRedis()];
    const proxy = await TcpProxy.start(primary.url);
    started.push(() => proxy.close());
    const service = await startService(proxy.urlFor(primary.url));
    const { id, key } = await roomyKey();
    await request(service, key);
    await primary.administrate((admin) => admin.replicaof('127.0.0.1', standby.port));
    proxy.retarget(standby.url);
    await waitFor(async () => {
      await request(service, key);
      return (await countOf(standby, id)) > 0;
    }, 'requests are counted in the new primary');
    expect((await request(service, key)).status).toBe(404);
  });
});

describeWithRedis('replicas that share a Redis', () => {
  /** Sends all requests at once on a fresh Pro key; again on another key should the UTC minute have changed meanwhile. */
  async function admittedInOneMinute(replicas: readonly ServiceProcess[], requests: number): Promise<number> {
    for (;;) {
      const { key } = await insertKey(database.db, { plan: 'pro' });
      const responses = await Promise.all(
        Array.from({ length: requests }, (_, index) => request(replicas[index % replicas.length]!, key)),
      );
      const admitted = responses.filter(({ status }) => status === 404);
      expect(responses.filter(({ status }) => status === 429)).toHaveLength(requests - admitted.length);
      const minutes = new Set(admitted.map(({ headers }) => headers.get('x-ratelimit-reset')));
      if (minutes.size === 1) {
        return admitted.length;
      }
    }
  }

  it('admit exactly the quota of 600 parallel requests, and count those without a valid key in memory only', async () => {
    const redis = await startRedis();
    const environment = { DATABASE_URL: database.url, REDIS_URL: redis.url };
    const replicas = await Promise.all([1, 2, 3].map(() => ServiceProcess.start(environment)));
    started.push(() => Promise.all(replicas.map((replica) => replica.stop())));
    expect(await admittedInOneMinute(replicas, 600)).toBe(300);
    const stored = (): Promise<string[]> => redis.administrate((admin) => admin.keys('*'));
    const before = await stored();
    const response = await request(replicas[0]!);
    expect([response.status, response.headers.get('x-ratelimit-remaining')]).toEqual([401, '59']);
    expect(await stored()).toEqual(before);
  });

  it('admit together as many requests as the plan, although they are busy while Redis replies', async () => {
    const redis = await startRedis();
    const options = { clock: Date, banRule: { threshold: 0, windowSeconds: 60, durationSeconds: 300 } };
    const quotas = { requestsPerMinute: 1_000, requestsPerDay: 300 };
    const admitted: number[] = [];
    for (let replica = 0; replica < 2; replica++) {
      const connection = createRedis(redis.url);
      const store = new RedisQuotaStore({ ...options, redis: connection, recoveries: { inc: () => undefined } });
      started.push(() => {
        store.onApplicationShutdown();
      });
      await openRedis(connection);
      await store.consume('warm-up', quotas);
      const burst = Promise.all(Array.from({ length: 300 }, () => store.consume('busy', quotas)));
      // Commands are written in the turn of the event loop in which they are sent.
      await new Promise(setImmediate);
      const endsAt = performance.now() + 1_000;
      while (performance.now() < endsAt);
      admitted.push((await burst).filter(({ outcome }) => outcome === 'admitted').length);
    }
    expect([...admitted, await countOf(redis, 'busy')]).toEqual([300, 0, 300]);
  });

  it('ban a key with the rejection that reaches the threshold, until one time, and lift the ban at once', async () => {
    const redis = await startRedis();
    // Their clocks are far from that of Redis.
    const replicas = [await startService(redis.url), await startService(redis.url)];
    const { id, key } = await insertKey(database.db, { requests_per_minute: 100, requests_per_day: 1 });
    const responses: Response[] = [];
    for (let number = 0; number < 7; number++) {
      responses.push(await request(replicas[number % 2]!, key));
      if (number === 1) {
        // Moves the start of the grace back, past the time in which rejections do not count towards a ban.
        await redis.administrate((admin) => admin.hincrby(redisKeyOf(id), 'gs', -2_000));
      }
    }
    const codes = await Promise.all(responses.map(async (response) => (await errorOf(response)).code));
    const [limited, banned] = ['rate_limit_exceeded', 'api_key_banned'];
    expect(codes).toEqual(['route_not_found', limited, limited, banned, banned, banned, banned]);
    const resets = responses.slice(3).map(({ headers }) => Number(headers.get('x-ratelimit-reset')));
    expect(new Set(resets).size).toBe(1);
    const retryAfter = Number(responses[3]!.headers.get('retry-after'));
    expect(retryAfter).toBeGreaterThan(240);
    expect(retryAfter).toBeLessThanOrEqual(301);

    await liftBanInRedis(redis.url, id);
    for (const replica of replicas) {
      // Its counts stay.
      expect(await codeOf(replica, key)).toBe(limited);
    }
  });
});
