import { RedisQuotaStore } from '../../src/rate-limit/redis-quota-store.js';
import { createRedis, type LimitRedis, openRedis } from '../../src/rate-limit/redis-connection.js';
import { consumeArguments, redisKeyOf } from '../../src/rate-limit/redis-script.js';
import { call, errorOf } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { replaceMonotonicClock } from '../helpers/monotonic-clock.js';
import { administrate, countOf, SERVICE_COMMANDS } from '../helpers/redis-limits.js';
import { describeWithRedis, RedisServer } from '../helpers/redis-server.js';
import { TcpProxy } from '../helpers/tcp-proxy.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

const database = useTestDatabase();
const BAN_RULE = { threshold: 3, windowSeconds: 60, durationSeconds: 300 };

/** What the test has started, the last one first. */
const started: (() => unknown)[] = [];
const logged: string[] = [];
afterEach(async () => {
  for (const end of started.splice(0).reverse()) {
    await end();
  }
  logged.length = 0;
});

async function startRedis(flags: readonly string[] = []): Promise<RedisServer> {
  const redis = await RedisServer.start(flags);
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
    environment: { REDIS_URL: redisUrl, RATE_LIMIT_BAN_THRESHOLD: '2' },
  });
  started.push(() => service.stop());
  return service;
}

const roomyKey = (): Promise<{ id: string; key: string }> =>
  insertKey(database.db, { requests_per_minute: 1_000_000, requests_per_day: 1_000_000 });
const request = (service: TestService, key: string): Promise<Response> =>
  call(service.baseUrl, 'GET', '/nothing-here', key);
const codeOf = async (service: TestService, key: string): Promise<string> =>
  (await errorOf(await request(service, key))).code;

/** Sends requests until they are counted in memory: all are admitted, and none waits for Redis for long. */
async function untilDegraded(service: TestService, key: string): Promise<void> {
  await waitFor(
    async () => {
      const responses = await Promise.all([1, 2, 3].map(() => request(service, key)));
      expect(responses.map(({ status }) => status)).toEqual([404, 404, 404]);
      return logged.length > 0;
    },
    'requests are counted in memory',
    { withinMs: 4_500 },
  );
}

async function untilRecovered(service: TestService, key: string): Promise<void> {
  await waitFor(async () => {
    expect((await request(service, key)).status).toBe(404);
    return logged.length > 1;
  }, 'requests are counted in Redis again');
}

interface Outage {
  readonly what: string;
  readonly flags?: readonly string[];
  /** Like `user:password@`. */
  readonly login?: string;
  readonly begin: (redis: RedisServer) => unknown;
  readonly end: (redis: RedisServer) => unknown;
  /** In the log line. Without a connection, the error of a command may come first. */
  readonly reason?: string;
}

const USER = ['--user', 'limiter', 'on', '>secret', '~petstore:*', ...SERVICE_COMMANDS];
const setUser = (redis: RedisServer, ...rules: string[]): Promise<unknown> =>
  administrate(redis, (admin) => admin.acl('SETUSER', 'limiter', ...rules));
let loaded: Promise<void>;

const OUTAGES: Outage[] = [
  { what: 'it is killed', begin: (redis) => redis.kill(), end: (redis) => redis.restart() },
  {
    what: 'it is suspended',
    begin: (redis) => {
      redis.freeze();
    },
    end: (redis) => {
      redis.thaw();
    },
    reason: 'no response within 100 ms',
  },
  {
    what: 'its replies take seconds',
    begin: (redis) => administrate(redis, (admin) => admin.client('PAUSE', 4_000)),
    end: () => undefined,
    reason: 'no response within 100 ms',
  },
  {
    what: 'it is a read-only replica',
    begin: (redis) => administrate(redis, (admin) => admin.replicaof('127.0.0.1', 1)),
    end: (redis) => administrate(redis, (admin) => admin.replicaof('NO', 'ONE')),
  },
  {
    what: 'its memory is full',
    begin: (redis) => administrate(redis, (admin) => admin.config('SET', 'maxmemory', '1')),
    end: (redis) => administrate(redis, (admin) => admin.config('SET', 'maxmemory', '0')),
    reason: 'OOM',
  },
  {
    what: 'it loads its data',
    flags: ['--key-load-delay', '5000', '--loading-process-events-interval-bytes', '1024'],
    begin: async (redis) => {
      await administrate(redis, async (admin) => {
        for (let key = 0; key < 500; key++) {
          await admin.set(`filler:${key}`, 'x'.repeat(100));
        }
        await admin.save();
      });
      await redis.kill();
      loaded = redis.restart();
    },
    end: () => loaded,
  },
  {
    what: 'the password of the user is another one',
    flags: USER,
    login: 'limiter:secret@',
    begin: async (redis) => {
      await setUser(redis, 'resetpass', '>changed');
      // Connections that are open remain authenticated.
      await administrate(redis, (admin) => admin.call('CLIENT', 'KILL', 'USER', 'limiter'));
    },
    end: (redis) => setUser(redis, 'resetpass', '>secret'),
  },
  {
    what: 'the user lacks a right',
    flags: USER,
    login: 'limiter:secret@',
    begin: (redis) => setUser(redis, '-pexpireat'),
    end: (redis) => setUser(redis, '+pexpireat'),
    reason: "can't run this command",
  },
];

describeWithRedis('a service whose Redis fails', () => {
  it.each(OUTAGES)(
    'counts in memory while $what, and in Redis afterwards, and logs each once',
    async ({ flags, login = '', begin, end, reason = '' }) => {
      const redis = await startRedis(flags);
      const service = await startService(redis.url.replace('//', `//${login}`));
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
      expect([await request(service, small.key), await request(service, small.key)]).toMatchObject([
        { status: 404 },
        { status: 429 },
      ]);

      await end(redis);
      await untilRecovered(service, roomy.key);
      await untilCounted(await countOf(redis, roomy.id));
      expect(logged.slice(1)).toEqual(['Redis available again, counting in Redis']);
    },
  );

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

  it('has bans of its own meanwhile, which an operator can lift and Redis does not know', async () => {
    const redis = await startRedis();
    const service = await startService(redis.url);
    const [lifted, kept] = [
      await insertKey(database.db, { requests_per_minute: 1, requests_per_day: 9 }),
      await insertKey(database.db, { requests_per_minute: 1, requests_per_day: 9 }),
    ];
    await redis.kill();
    const roomy = await roomyKey();
    await untilDegraded(service, roomy.key);
    for (const { key } of [lifted, kept]) {
      const codes = [await codeOf(service, key), await codeOf(service, key)];
      // Later than what may have been in flight at the first rejection.
      service.clock.advance(2_000);
      codes.push(await codeOf(service, key));
      expect(codes).toEqual(['route_not_found', 'rate_limit_exceeded', 'api_key_banned']);
    }
    await database.db.query("SELECT pg_notify('api_key_unbanned', $1)", [lifted.id]);
    await waitFor(
      async () => (await codeOf(service, lifted.key)) === 'rate_limit_exceeded',
      'the ban of the key is lifted',
    );
    expect(await codeOf(service, kept.key)).toBe('api_key_banned');
    logged.splice(1);
    await redis.restart();
    await untilRecovered(service, roomy.key);
    expect(await codeOf(service, kept.key)).toBe('route_not_found');
  });

  it('counts the first requests after an outage in Redis alone, however many there are', async () => {
    const redis = await startRedis();
    const { store, connection } = await startStore(redis);
    const quotas = { requestsPerMinute: 1_000_000, requestsPerDay: 10 };
    await redis.kill();
    for (let failure = 0; failure < 3; failure++) {
      await store.consume('a', quotas);
    }
    expect(store.degraded).toBe(true);
    await redis.restart();
    await waitFor(() => connection.status === 'ready', 'the store is connected');
    const start = performance.now();
    replaceMonotonicClock(() => start + 1_000);
    const verdicts = await Promise.all(Array.from({ length: 30 }, () => store.consume('b', quotas)));
    expect(verdicts.filter(({ outcome }) => outcome === 'admitted')).toHaveLength(10);
    expect([store.degraded, await countOf(redis, 'b')]).toEqual([false, 10]);
  });
});

async function startStore(server: RedisServer): Promise<{ store: RedisQuotaStore; connection: LimitRedis }> {
  const connection = createRedis(server.url);
  const options = { clock: Date, banRule: BAN_RULE, recoveries: { inc: () => undefined } };
  const store = new RedisQuotaStore({ ...options, redis: connection });
  started.push(() => {
    store.onApplicationShutdown();
  });
  await openRedis(connection);
  return { store, connection };
}

describeWithRedis('when Redis fails over', () => {
  let [primary, standby] = [] as unknown as [RedisServer, RedisServer];
  let proxy: TcpProxy;
  let service: TestService;
  let roomy: { id: string; key: string };
  beforeEach(async () => {
    [primary, standby] = [await startRedis(), await startRedis()];
    proxy = await TcpProxy.start(primary.url);
    started.push(() => proxy.close());
    service = await startService(proxy.urlFor(primary.url));
    roomy = await roomyKey();
  });

  const replicate = (replica: RedisServer, from: RedisServer): Promise<unknown> =>
    administrate(replica, (admin) => admin.replicaof('127.0.0.1', from.port));

  it('the service continues with the counts of the promoted replica', async () => {
    await replicate(standby, primary);
    await waitFor(async () => {
      await request(service, roomy.key);
      return (await countOf(standby, roomy.id)) >= 20;
    }, 'the replica has the counts');
    await primary.kill();
    await untilDegraded(service, roomy.key);
    await administrate(standby, (admin) => admin.replicaof('NO', 'ONE'));
    const before = await countOf(standby, roomy.id);
    proxy.retarget(standby.url);
    await untilRecovered(service, roomy.key);
    expect(await countOf(standby, roomy.id)).toBeGreaterThan(before);
  });

  it('the service counts in the new primary although the connection to the demoted one stays open', async () => {
    await request(service, roomy.key);
    await replicate(primary, standby);
    proxy.retarget(standby.url);
    await waitFor(async () => {
      await request(service, roomy.key);
      return (await countOf(standby, roomy.id)) > 0;
    }, 'requests are counted in the new primary');
    expect((await request(service, roomy.key)).status).toBe(404);
  });
});

describeWithRedis('when Redis has evicted the script', () => {
  // The commands themselves, because a request waits only 100 ms for one.
  it('each request is counted once', async () => {
    const server = await startRedis();
    const { connection } = await startStore(server);
    const values = consumeArguments({ requestsPerMinute: 1_000_000, requestsPerDay: 1_000_000 }, BAN_RULE);
    let counted = 0;
    await administrate(server, async (admin) => {
      for (let flush = 0; flush < 20; flush++) {
        const burst = Array.from({ length: 50 }, () => connection.consume(redisKeyOf('evicted'), ...values));
        const [, replies] = await Promise.all([admin.script('FLUSH'), Promise.all(burst)]);
        counted += replies.filter(([, isCounted]) => isCounted === 1).length;
      }
    });
    expect([counted, await countOf(server, 'evicted')]).toEqual([1_000, 1_000]);
  });
});

describeWithRedis('replicas that were busy while Redis replied', () => {
  it('admit together as many requests as the plan', async () => {
    const server = await startRedis();
    const stores = [await startStore(server), await startStore(server)];
    const quotas = { requestsPerMinute: 1_000, requestsPerDay: 300 };
    const admitted: number[] = [];
    for (const { store } of stores) {
      await store.consume('warm-up', quotas);
      const burst = Promise.all(Array.from({ length: 300 }, () => store.consume('busy', quotas)));
      // Commands are written in the turn of the event loop in which they are sent.
      await new Promise(setImmediate);
      const endsAt = performance.now() + 1_000;
      while (performance.now() < endsAt);
      admitted.push((await burst).filter(({ outcome }) => outcome === 'admitted').length);
    }
    expect([...admitted, await countOf(server, 'busy')]).toEqual([300, 0, 300]);
  });
});
