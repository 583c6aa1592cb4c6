import { call, cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { formCluster } from '../helpers/redis-cluster.js';
import { administrate, countOf } from '../helpers/redis-limits.js';
import { describeWithRedis, RedisServer } from '../helpers/redis-server.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';

jest.setTimeout(60_000);

const database = useTestDatabase();

const startReplica = (redisUrls: string): Promise<ServiceProcess> =>
  ServiceProcess.start({ DATABASE_URL: database.url, REDIS_URL: redisUrls });
const startThree = (redisUrls: string): Promise<ServiceProcess[]> =>
  Promise.all([1, 2, 3].map(() => startReplica(redisUrls)));
const stopAll = (processes: readonly { stop(): Promise<unknown> }[]): Promise<unknown> =>
  Promise.all(processes.map((each) => each.stop()));
const request = (replica: ServiceProcess, key?: string): Promise<Response> =>
  call(replica.baseUrl, 'GET', '/nothing-here', key);

describeWithRedis('three replicas that share a Redis', () => {
  let redis: RedisServer;
  let replicas: ServiceProcess[];

  beforeAll(async () => {
    redis = await RedisServer.start();
    replicas = await startThree(redis.url);
  });
  afterAll(() => stopAll([...replicas, redis]));

  it('admit exactly the quota of 600 parallel requests', async () => {
    expect(await admittedInOneMinute(replicas, 600)).toBe(300);
  });

  it('count requests without a valid key in memory only', async () => {
    const stored = (): Promise<string[]> => administrate(redis, (admin) => admin.keys('*'));
    const before = await stored();
    const response = await request(replicas[0]!);
    expect([response.status, response.headers.get('x-ratelimit-remaining')]).toEqual([401, '59']);
    expect(await stored()).toEqual(before);
  });

  it('keep the counts and the ban after all of them restart', async () => {
    const { key } = await insertKey(database.db, { requests_per_minute: 1_000, requests_per_day: 20 });
    for (let used = 0; used < 20; used++) {
      await cancelOrder(replicas[used % 3]!.baseUrl, '1', key);
    }
    const banned = await rejectUntilBanned(replicas[0]!, key);
    await stopAll(replicas);
    replicas = await startThree(redis.url);
    for (const replica of replicas) {
      const response = await request(replica, key);
      expect((await errorOf(response)).code).toBe('api_key_banned');
      expect(response.headers.get('x-ratelimit-reset')).toBe(banned.headers.get('x-ratelimit-reset'));
    }
  });

  it('all reject a key after one of them has banned it, and admit it when the ban is lifted', async () => {
    const { id, key } = await insertKey(database.db, { requests_per_minute: 2, requests_per_day: 100_000 });
    // Every replica has cached that the key is over its limit.
    for (const replica of [...replicas, ...replicas]) {
      await request(replica, key);
    }
    for (const replica of replicas) {
      expect((await rejectUntilBanned(replica, key)).status).toBe(429);
    }
    // More quota, so that only the ban stands in the way; then the ban is lifted.
    await database.db.query('UPDATE api_keys SET requests_per_minute = 100000 WHERE id = $1', [id]);
    await administrate(redis, (admin) => admin.hdel(`petstore:limit:{key:${id}}`, 'bu'));
    await database.db.query("SELECT pg_notify('api_key_unbanned', $1)", [id]);
    for (const replica of replicas) {
      await waitFor(async () => (await request(replica, key)).status === 404, 'the ban is lifted everywhere');
    }
  });

  it('ask Redis once for each request with a key, at most once a second during a ban, and never for other requests', async () => {
    const { key } = await insertKey(database.db, { requests_per_minute: 20, requests_per_day: 1_000 });
    const [replica] = replicas as [ServiceProcess];
    await request(replica, key);
    const before = await redis.commandCounts();
    const startedAtMs = performance.now();
    let counted = 0;
    for (let number = 0; number < 40; number++) {
      const response = await request(replica, key);
      counted += response.status === 404 || (await errorOf(response)).code === 'rate_limit_exceeded' ? 1 : 0;
      expect((await request(replica)).status).not.toBe(404);
    }
    for (const path of ['/health/live', '/health/ready', '/docs', '/docs/openapi.json']) {
      expect((await fetch(`${replica.baseUrl}${path}`)).status).toBe(200);
    }
    const after = await redis.commandCounts();
    const sent = (after.evalsha ?? 0) - (before.evalsha ?? 0);
    expect(sent).toBeGreaterThanOrEqual(counted);
    // One more starts the ban.
    expect(sent).toBeLessThanOrEqual(counted + 1 + (performance.now() - startedAtMs) / 1_000 + 1);
    expect(after.eval ?? 0).toBe(before.eval ?? 0);
  });
});

describeWithRedis('a replica whose Redis fails', () => {
  let redis: RedisServer;
  let replica: ServiceProcess;

  beforeEach(async () => {
    redis = await RedisServer.start();
    replica = await startReplica(redis.url);
  });
  afterEach(async () => {
    redis.thaw();
    await stopAll([replica, redis]);
  });

  it('counts in memory when Redis is killed under load, and in Redis when it is back', async () => {
    const { id, key } = await insertKey(database.db, { requests_per_minute: 100_000, requests_per_day: 100_000 });
    const { key: small } = await insertKey(database.db, { requests_per_minute: 5, requests_per_day: 5 });
    let stop = false;
    const responses: Response[] = [];
    const load = Promise.all(
      Array.from({ length: 16 }, async () => {
        while (!stop) {
          responses.push(await request(replica, key));
        }
      }),
    );
    await waitFor(() => responses.length > 50, 'load is running');
    await redis.kill();
    await waitFor(() => replica.output.includes('Redis unavailable'), 'the outage is noticed');
    const atOutage = responses.length;
    await waitFor(() => responses.length > atOutage + 200, 'load continues');
    const limited = await Promise.all(Array.from({ length: 8 }, () => request(replica, small)));
    expect(limited.filter(({ status }) => status === 404)).toHaveLength(5);
    await redis.restart();
    await waitFor(() => replica.output.includes('Redis available again'), 'Redis is used again');
    stop = true;
    await load;
    for (const response of responses) {
      expect(response.status).toBe(404);
      expect(response.headers.get('x-ratelimit-limit')).toBe('100000');
      expect(response.headers.get('x-ratelimit-remaining')).toMatch(/^\d+$/);
      expect(response.headers.get('x-ratelimit-reset')).toMatch(/^\d+$/);
    }
    expect(replica.output.match(/Redis unavailable/g)).toHaveLength(1);
    const before = await countOf(redis, id);
    await request(replica, key);
    expect(await countOf(redis, id)).toBe(before + 1);
  });

  it('responds while Redis is suspended, and sends it no request twice', async () => {
    const { key } = await insertKey(database.db);
    await request(replica, key);
    const sentBefore = (await redis.commandCounts()).evalsha ?? 0;
    redis.freeze();
    const responses = await Promise.all(Array.from({ length: 200 }, () => request(replica, key)));
    expect(responses.filter(({ status }) => status !== 404)).toEqual([]);
    expect(replica.output).toContain('Redis unavailable');
    redis.thaw();
    let extraRequests = 0;
    await waitFor(async () => {
      await request(replica, key);
      extraRequests++;
      return replica.output.includes('Redis available again');
    }, 'Redis is used again');
    // A script that timed out may have counted; sent again, it would count twice.
    const sent = ((await redis.commandCounts()).evalsha ?? 0) - sentBefore;
    expect(sent).toBeLessThanOrEqual(200 + extraRequests);
  });

  it('starts without Redis, logs that once and uses Redis when it becomes available', async () => {
    await redis.kill();
    const early = await startReplica(redis.url);
    try {
      const { key } = await insertKey(database.db);
      expect((await listOrders(early.baseUrl, key)).status).toBe(200);
      await redis.restart();
      await waitFor(() => early.output.includes('Redis available again'), 'Redis is used');
      expect(early.output.match(/Redis unavailable/g)).toHaveLength(1);
    } finally {
      await early.stop();
    }
  });
});

describeWithRedis('three replicas that share a Redis Cluster', () => {
  it('admit exactly the quota of 600 parallel requests, on every node of the cluster', async () => {
    const flags = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '2000'];
    const masters = await Promise.all([1, 2, 3].map(() => RedisServer.start(flags)));
    await formCluster(masters);
    const replicas = await startThree(masters.map(({ url }) => url).join(','));
    try {
      expect(await admittedInOneMinute(replicas, 600)).toBe(300);
      expect(replicas.some(({ output }) => output.includes('Redis unavailable'))).toBe(false);
    } finally {
      await stopAll([...replicas, ...masters]);
    }
  });
});

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

async function rejectUntilBanned(replica: ServiceProcess, key: string): Promise<Response> {
  let last: Response | undefined;
  await waitFor(async () => {
    last = await request(replica, key);
    return (await errorOf(last)).code === 'api_key_banned';
  }, 'the key is banned');
  return last!;
}
