import { setTimeout as delay } from 'node:timers/promises';
import { call, listOrders } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { administrate, countOf } from '../helpers/redis-limits.js';
import { describeWithRedis, RedisServer } from '../helpers/redis-server.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { TcpProxy } from '../helpers/tcp-proxy.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

const database = useTestDatabase();

const startReplica = (redisUrl: string): Promise<ServiceProcess> =>
  ServiceProcess.start({ DATABASE_URL: database.url, REDIS_URL: redisUrl });
const startThree = (redisUrl: string): Promise<ServiceProcess[]> =>
  Promise.all([1, 2, 3].map(() => startReplica(redisUrl)));
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

  it('close their connections to it when they stop', async () => {
    const connections = (): Promise<number> =>
      administrate(
        redis,
        async (admin) =>
          String(await admin.call('CLIENT', 'LIST', 'TYPE', 'normal'))
            .trim()
            .split('\n').length,
      );
    const before = await connections();
    const service = await startTestService({ database, environment: { REDIS_URL: redis.url } });
    expect(await connections()).toBe(before + 1);
    await service.stop();
    await waitFor(async () => (await connections()) === before, 'its connection is closed');
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

  it('responds while Redis is suspended, and sends it no request twice', async () => {
    const { id, key } = await insertKey(database.db);
    await request(replica, key);
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
    expect(await countOf(redis, id)).toBeLessThanOrEqual(1 + 200 + extraRequests);
  });

  it('starts without Redis, logs that once and uses Redis when it becomes available', async () => {
    await redis.kill();
    const early = await startReplica(redis.url);
    try {
      const { key } = await insertKey(database.db);
      expect((await listOrders(early.baseUrl, key)).status).toBe(200);
      await redis.restart();
      await waitFor(async () => {
        await request(early, key);
        return early.output.includes('Redis available again');
      }, 'Redis is used');
      expect(early.output.match(/Redis unavailable/g)).toHaveLength(1);
    } finally {
      await early.stop();
    }
  });
});

describeWithRedis('a request while Redis does not reply', () => {
  let redis: RedisServer;
  let proxy: TcpProxy;
  let service: TestService;
  let known: { id: string; key: string };

  const ask = async (key: string): Promise<number> => (await call(service.baseUrl, 'GET', '/nothing-here', key)).status;
  const countOfKnown = (): Promise<number> => countOf(redis, known.id);

  beforeAll(async () => {
    redis = await RedisServer.start();
    proxy = await TcpProxy.start(redis.url);
    service = await startTestService({ database, environment: { REDIS_URL: proxy.urlFor(redis.url) } });
    known = await insertKey(database.db);
  });
  beforeEach(async () => {
    proxy.restore();
    await waitFor(async () => {
      const before = await countOfKnown();
      await ask(known.key);
      return (await countOfKnown()) > before;
    }, 'the service counts in Redis');
    proxy.stall();
  });
  afterAll(async () => {
    await service.stop();
    await proxy.close();
    await redis.stop();
  });

  it('gets its response within 2.5 seconds', async () => {
    const received: { status?: number } = {};
    const response = ask(known.key).then((status) => (received.status = status));
    // Many timers instead of one: a busy machine delays them as much as the service, which runs in this process.
    for (let tenths = 0; tenths < 25 && received.status === undefined; tenths++) {
      await delay(100);
    }
    expect(received.status).toBe(404);
    await response;
  });

  it('is admitted within the limit of its key, and rejected with 429 beyond it', async () => {
    const { key } = await insertKey(database.db, { requests_per_minute: 100, requests_per_day: 2 });
    expect([await ask(key), await ask(key), await ask(key)]).toEqual([404, 404, 429]);
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
