import { ApiKeysAdmin } from '../../src/api-keys/api-keys.admin.js';
import { call, cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { formCluster } from '../helpers/redis-cluster.js';
import { describeWithRedis, RedisServer } from '../helpers/redis-server.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';

jest.setTimeout(60_000);

describeWithRedis('three replicas that share a Redis', () => {
  let database: TestDatabase;
  let redis: RedisServer;
  let replicas: ServiceProcess[];
  const environment = (): Record<string, string> => ({
    DATABASE_URL: database.url,
    REDIS_URL: redis.url,
    TRUST_PROXY: '1',
  });

  beforeAll(async () => {
    database = await createTestDatabase();
    redis = await RedisServer.start();
    replicas = await Promise.all([1, 2, 3].map(() => ServiceProcess.start(environment())));
  });
  afterAll(async () => {
    await Promise.all(replicas.map((replica) => replica.stop()));
    await redis.stop();
    await database.drop();
  });

  it('admit exactly the quota of 600 parallel requests', async () => {
    const admitted = await admittedInOneMinute(database, replicas, 600);
    expect(admitted).toBe(300);
  });

  it('keep the counts and the ban after all of them restart', async () => {
    const { key } = await insertKey(database.db, { requests_per_minute: 1_000, requests_per_day: 20 });
    for (let used = 0; used < 20; used++) {
      await cancelOrder(replicas[used % 3]!.baseUrl, '1', key);
    }
    const banned = await rejectUntilBanned(replicas[0]!, key);
    await Promise.all(replicas.map((replica) => replica.stop()));
    replicas = await Promise.all([1, 2, 3].map(() => ServiceProcess.start(environment())));
    for (const replica of replicas) {
      const response = await cancelOrder(replica.baseUrl, '1', key);
      expect((await errorOf(response)).code).toBe('api_key_banned');
      expect(response.headers.get('x-ratelimit-reset')).toBe(banned.headers.get('x-ratelimit-reset'));
    }
    const state = redis.connect();
    const [name] = await state.keys('petstore:limit:*');
    state.disconnect();
    expect(name).toBeDefined();
  });

  it('all reject a key within seconds after one of them has banned it, and admit it when the ban is lifted', async () => {
    const { id, key } = await insertKey(database.db, { requests_per_minute: 2, requests_per_day: 100_000 });
    // Every replica has cached that the key is over its limit.
    for (const replica of [...replicas, ...replicas]) {
      await cancelOrder(replica.baseUrl, '1', key);
    }
    await rejectUntilBanned(replicas[0]!, key);
    for (const replica of replicas) {
      await waitFor(
        async () => {
          const response = await cancelOrder(replica.baseUrl, '1', key);
          return (await errorOf(response)).code === 'api_key_banned';
        },
        'every replica rejects with the ban',
        { withinMs: 3_000 },
      );
    }
    // More quota, so that only the ban stands in the way; then the ban is lifted.
    await database.db.query('UPDATE api_keys SET requests_per_minute = 100000 WHERE id = $1', [id]);
    const admin = redis.connect();
    await admin.hdel(`petstore:limit:{key:${id}}`, 'bu');
    admin.disconnect();
    await database.db.query("SELECT pg_notify('api_key_unbanned', $1)", [id]);
    for (const replica of replicas) {
      await waitFor(
        async () => (await cancelOrder(replica.baseUrl, '1', key)).status === 404,
        'the ban is lifted everywhere',
        {
          withinMs: 1_000,
        },
      );
    }
  });

  it('leave the ETag of the list unchanged when they ban a caller', async () => {
    const [replica] = replicas as [ServiceProcess];
    const { id, key } = await insertKey(database.db);
    await listOrders(replica.baseUrl, key);
    // The record of a key's first use is a write too.
    await waitFor(async () => {
      const { rowCount } = await database.db.query('SELECT FROM api_keys WHERE id = $1 AND last_used_at IS NULL', [id]);
      return rowCount === 0;
    }, 'the use of the key is recorded');
    const before = (await listOrders(replica.baseUrl, key)).headers.get('etag');
    await waitFor(
      async () => (await errorOf(await cancelOrder(replica.baseUrl, '1'))).code === 'address_banned',
      'the address is banned',
    );
    for (const { baseUrl } of replicas) {
      await waitFor(
        async () => (await errorOf(await cancelOrder(baseUrl, '1'))).code === 'address_banned',
        'every replica rejects with the ban',
      );
    }
    expect((await listOrders(replica.baseUrl, key)).headers.get('etag')).toBe(before);
  });

  it('ask Redis once for each request with a key, at most once a second during a ban, and never for other requests', async () => {
    const { key } = await insertKey(database.db, { requests_per_minute: 20, requests_per_day: 1_000 });
    const [replica] = replicas as [ServiceProcess];
    await call(replica.baseUrl, 'GET', '/nothing-here', key);
    const before = await redis.commandCounts();
    const startedAtMs = performance.now();
    let admitted = 0;
    let limited = 0;
    for (let request = 0; request < 40; request++) {
      const response = await call(replica.baseUrl, 'GET', '/nothing-here', key);
      admitted += response.status === 404 ? 1 : 0;
      limited += response.status === 429 && (await errorOf(response)).code === 'rate_limit_exceeded' ? 1 : 0;
      expect((await call(replica.baseUrl, 'GET', '/nothing-here')).status).not.toBe(404);
    }
    for (const path of ['/health/live', '/health/ready', '/docs', '/docs/openapi.json']) {
      expect((await fetch(`${replica.baseUrl}${path}`)).status).toBe(200);
    }
    const after = await redis.commandCounts();
    const sent = (after.evalsha ?? 0) - (before.evalsha ?? 0);
    expect(sent).toBeGreaterThanOrEqual(admitted + limited);
    // One more starts the ban.
    expect(sent).toBeLessThanOrEqual(admitted + limited + 1 + (performance.now() - startedAtMs) / 1_000 + 1);
    expect(after.eval ?? 0).toBe(before.eval ?? 0);
  });

  it('apply a revocation, expiry, rotation or change of plan on every replica within a second', async () => {
    const { id, key } = await insertKey(database.db);
    // An address of its own: a rejected key counts against the address, whose quota other tests have used.
    const from = { 'X-Forwarded-For': '203.0.113.15' };
    const statuses = (): Promise<number[]> =>
      Promise.all(
        replicas.map(async (replica) => (await call(replica.baseUrl, 'GET', '/nothing-here', key, from)).status),
      );
    expect(await statuses()).toEqual([404, 404, 404]);
    await database.db.query(
      "UPDATE api_keys SET plan = 'pro', requests_per_minute = NULL, requests_per_day = NULL WHERE id = $1",
      [id],
    );
    await waitFor(
      async () => {
        const limits = await Promise.all(
          replicas.map(async (replica) =>
            (await call(replica.baseUrl, 'GET', '/nothing-here', key, from)).headers.get('ratelimit-policy'),
          ),
        );
        return limits.every((limit) => limit === '"minute";q=300;w=60, "day";q=10000;w=86400');
      },
      'the plan is changed everywhere',
      { withinMs: 1_000 },
    );
    await database.db.query('UPDATE api_keys SET expires_at = now() WHERE id = $1', [id]);
    await waitFor(async () => (await statuses()).every((status) => status === 401), 'the key is expired everywhere', {
      withinMs: 1_000,
    });
    await database.db.query('UPDATE api_keys SET expires_at = NULL WHERE id = $1', [id]);
    await waitFor(
      async () => (await statuses()).every((status) => status === 404),
      'the key is valid again everywhere',
      {
        withinMs: 1_000,
      },
    );
    const client = await database.db.connect();
    const successor = await new ApiKeysAdmin(client).rotate(id, 0);
    client.release();
    await waitFor(async () => (await statuses()).every((status) => status === 401), 'the key is rotated everywhere', {
      withinMs: 1_000,
    });
    for (const replica of replicas) {
      expect((await call(replica.baseUrl, 'GET', '/nothing-here', successor.key, from)).status).toBe(404);
    }
    await database.db.query('UPDATE api_keys SET expires_at = NULL WHERE id = $1', [id]);
    await waitFor(
      async () => (await statuses()).every((status) => status === 404),
      'the key is valid again everywhere',
      {
        withinMs: 1_000,
      },
    );
    await database.db.query('UPDATE api_keys SET revoked_at = now() WHERE id = $1', [id]);
    await waitFor(async () => (await statuses()).every((status) => status === 401), 'the key is revoked everywhere', {
      withinMs: 1_000,
    });
  });
});

describeWithRedis('a replica whose Redis fails', () => {
  let database: TestDatabase;
  let redis: RedisServer;
  let replica: ServiceProcess;

  beforeEach(async () => {
    database = await createTestDatabase();
    redis = await RedisServer.start();
    replica = await ServiceProcess.start({ DATABASE_URL: database.url, REDIS_URL: redis.url });
  });
  afterEach(async () => {
    redis.thaw();
    await replica.stop();
    await redis.stop();
    await database.drop();
  });

  it('counts in memory when Redis is killed under load, and in Redis when it is back', async () => {
    const { key } = await insertKey(database.db, { requests_per_minute: 100_000, requests_per_day: 100_000 });
    const { key: small } = await insertKey(database.db, { requests_per_minute: 5, requests_per_day: 1_000 });
    let stop = false;
    const responses: Response[] = [];
    const load = Promise.all(
      Array.from({ length: 16 }, async () => {
        while (!stop) {
          responses.push(await call(replica.baseUrl, 'GET', '/nothing-here', key));
        }
      }),
    );
    await waitFor(() => responses.length > 50, 'load is running');
    await redis.kill();
    await waitFor(() => replica.output.includes('Redis unavailable'), 'the outage is noticed');
    const atOutage = responses.length;
    await waitFor(() => responses.length > atOutage + 200, 'load continues');
    const limited = await Promise.all(
      Array.from({ length: 8 }, () => call(replica.baseUrl, 'GET', '/nothing-here', small)),
    );
    expect(limited.filter(({ status }) => status === 404).length).toBeLessThanOrEqual(10);
    expect(limited.some(({ status }) => status === 429)).toBe(true);
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
    const counts = await redis.commandCounts();
    await call(replica.baseUrl, 'GET', '/nothing-here', key);
    expect((await redis.commandCounts()).evalsha).toBe((counts.evalsha ?? 0) + 1);
  });

  it('responds within 500 ms while Redis is suspended', async () => {
    const { key } = await insertKey(database.db);
    await call(replica.baseUrl, 'GET', '/nothing-here', key);
    const sentBefore = (await redis.commandCounts()).evalsha ?? 0;
    redis.freeze();
    let slowestMs = 0;
    for (let round = 0; round < 10; round++) {
      await Promise.all(
        Array.from({ length: 20 }, async () => {
          const start = performance.now();
          const response = await call(replica.baseUrl, 'GET', '/nothing-here', key);
          slowestMs = Math.max(slowestMs, performance.now() - start);
          expect(response.status).toBe(404);
        }),
      );
    }
    expect(slowestMs).toBeLessThan(500);
    redis.thaw();
    let extraRequests = 0;
    await waitFor(async () => {
      await call(replica.baseUrl, 'GET', '/nothing-here', key);
      extraRequests++;
      return replica.output.includes('Redis available again');
    }, 'Redis is used again');
    // A script that timed out may have counted; sent again, it would count twice.
    const sent = ((await redis.commandCounts()).evalsha ?? 0) - sentBefore;
    expect(sent).toBeLessThanOrEqual(200 + extraRequests);
  });

  it('starts without Redis, logs that once and uses Redis when it becomes available', async () => {
    await redis.kill();
    const early = await ServiceProcess.start({ DATABASE_URL: database.url, REDIS_URL: redis.url });
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
    const database = await createTestDatabase();
    const masters = await Promise.all([1, 2, 3].map(() => RedisServer.start(flags)));
    await formCluster(masters);
    const urls = masters.map(({ url }) => url).join(',');
    const replicas = await Promise.all(
      [1, 2, 3].map(() => ServiceProcess.start({ DATABASE_URL: database.url, REDIS_URL: urls })),
    );
    try {
      expect(await admittedInOneMinute(database, replicas, 600)).toBe(300);
      expect(replicas.some(({ output }) => output.includes('Redis unavailable'))).toBe(false);
    } finally {
      await Promise.all(replicas.map((replica) => replica.stop()));
      await Promise.all(masters.map((master) => master.stop()));
      await database.drop();
    }
  });
});

/** Sends all requests at once on a fresh Pro key; again on another key should the UTC minute have changed meanwhile. */
async function admittedInOneMinute(
  database: TestDatabase,
  replicas: ServiceProcess[],
  requests: number,
): Promise<number> {
  for (;;) {
    const { key } = await insertKey(database.db, { plan: 'pro' });
    const responses = await Promise.all(
      Array.from({ length: requests }, (_, index) =>
        call(replicas[index % replicas.length]!.baseUrl, 'GET', '/nothing-here', key),
      ),
    );
    const admitted = responses.filter(({ status }) => status === 404);
    const rejected = responses.filter(({ status }) => status === 429);
    expect(admitted.length + rejected.length).toBe(requests);
    const minutes = new Set(admitted.map(({ headers }) => headers.get('x-ratelimit-reset')));
    if (minutes.size === 1) {
      return admitted.length;
    }
  }
}

async function rejectUntilBanned(replica: ServiceProcess, key: string): Promise<Response> {
  let last: Response | undefined;
  await waitFor(async () => {
    last = await cancelOrder(replica.baseUrl, '1', key);
    return (await errorOf(last)).code === 'api_key_banned';
  }, 'the key is banned');
  return last!;
}
