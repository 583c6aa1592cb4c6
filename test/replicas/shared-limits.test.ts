import { liftBanInRedis } from '../../src/rate-limit/redis-admin.js';
import { call, errorOf } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { administrate, letInFlightPass } from '../helpers/redis-limits.js';
import { describeWithRedis, RedisServer } from '../helpers/redis-server.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { useTestDatabase } from '../helpers/test-database.js';
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

describeWithRedis('a ban in a Redis that replicas share', () => {
  let redis: RedisServer;
  let replicas: TestService[];

  beforeAll(async () => {
    redis = await RedisServer.start();
    const environment = { REDIS_URL: redis.url, RATE_LIMIT_BAN_THRESHOLD: '3' };
    // Their clocks are far from that of Redis.
    replicas = [await startTestService({ database, environment }), await startTestService({ database, environment })];
  });
  afterAll(() => stopAll([...replicas, redis]));

  it('begins with the rejection that reaches the threshold, ends at one time everywhere and is lifted at once', async () => {
    const { id, key } = await insertKey(database.db, { requests_per_minute: 100, requests_per_day: 1 });
    const responses: Response[] = [];
    for (let number = 0; number < 7; number++) {
      responses.push(await call(replicas[number % 2]!.baseUrl, 'GET', '/nothing-here', key));
      if (number === 1) {
        await letInFlightPass(redis, id);
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
    expect(Math.abs(resets[0]! - retryAfter - Date.now() / 1_000)).toBeLessThan(60);

    await liftBanInRedis(redis.url, id);
    for (const { baseUrl } of replicas) {
      // Its counts stay.
      expect((await errorOf(await call(baseUrl, 'GET', '/nothing-here', key))).code).toBe(limited);
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
