import { redisKeyOf } from '../../src/rate-limit/redis-script.js';
import { call } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { petstore, petstoreProcess } from '../helpers/petstore.js';
import { describeWithRedis, RedisServer } from '../helpers/redis-server.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { ManualClock } from '../helpers/manual-clock.js';
import { startTestService } from '../helpers/test-service.js';

const database = useTestDatabase();
beforeEach(() => database.db.query('DELETE FROM api_keys'));

async function keysJson(args: readonly string[], redisUrl: string): Promise<unknown> {
  const result = await petstore(['keys', ...args, '--json'], { DATABASE_URL: database.url, REDIS_URL: redisUrl });
  expect(result).toMatchObject({ exitCode: 0, stderr: '' });
  return JSON.parse(result.stdout);
}

describeWithRedis('keys list and keys show with Redis', () => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await RedisServer.start();
  });
  afterAll(() => redis.stop());

  it('show the remaining requests of today and consume no quota', async () => {
    const service = await startTestService({
      database,
      clock: new ManualClock(Date.now()),
      environment: { REDIS_URL: redis.url },
    });
    const { id, key } = await insertKey(database.db, { plan: 'pro' });
    try {
      for (let number = 0; number < 3; number++) {
        expect((await call(service.baseUrl, 'HEAD', '/store/orders', key)).status).toBe(200);
      }
    } finally {
      await service.stop();
    }
    const first = await keysJson(['list'], redis.url);
    expect(first).toEqual([
      expect.objectContaining({ id, state: 'active', requestsLeftToday: 9_997, banned: false, bannedUntil: null }),
    ]);
    expect(await keysJson(['list'], redis.url)).toEqual(first);
    expect([await keysJson(['show', id], redis.url)]).toEqual(first);
    const table = await petstore(['keys', 'list'], { DATABASE_URL: database.url, REDIS_URL: redis.url });
    expect(table.stdout).toContain(' 9,997 ');
  });

  it('show an active ban, and do not count the requests of yesterday', async () => {
    const { id } = await insertKey(database.db, { plan: 'free' });
    const bannedUntil = new Date(Date.now() + 240_000);
    const connection = redis.connect();
    await connection.hset(redisKeyOf(id), { de: 86_400, du: 900, bu: bannedUntil.getTime() });
    connection.disconnect();
    expect(await keysJson(['show', id], redis.url)).toMatchObject({
      state: 'banned',
      requestsLeftToday: 1_000,
      banned: true,
      bannedUntil: bannedUntil.toISOString(),
    });
    const { stdout } = await petstore(['keys', 'list'], { DATABASE_URL: database.url, REDIS_URL: redis.url });
    expect(stdout).toContain(` banned until ${bannedUntil.toISOString()} `);
    await database.db.query('UPDATE api_keys SET revoked_at = now() WHERE id = $1', [id]);
    expect(await keysJson(['show', id], redis.url)).toMatchObject({ state: 'revoked', requestsLeftToday: null });
  });
});

describeWithRedis('without a working Redis, keys list works with a warning and keys unban fails, when', () => {
  let silent: RedisServer;
  let id: string;
  beforeAll(async () => {
    silent = await RedisServer.start();
    silent.freeze();
    await database.db.query('DELETE FROM api_keys');
    ({ id } = await insertKey(database.db, { plan: 'free' }));
  });
  afterAll(() => silent.stop());

  // Each command waits for Redis, so all of them run at the same time.
  test.concurrent.each<[string, () => number, RegExp]>([
    ['the connection is refused', () => 1, /^warning: Redis cannot be used \(connect ECONNREFUSED 127\.0\.0\.1:1\)/],
    ['Redis does not respond', () => silent.port, /^warning: Redis cannot be used \(/],
  ])('%s', async (_what, port, reason) => {
    const environment = { DATABASE_URL: database.url, REDIS_URL: `redis://127.0.0.1:${port()}` };
    const [result, unban] = await Promise.all([
      petstoreProcess(['keys', 'list', '--json'], environment),
      petstoreProcess(['keys', 'unban', id], environment),
    ]);
    expect(result.exitCode).toBe(0);
    expect(result.stderr).toMatch(reason);
    expect(result.stderr).toMatch(/; remaining requests and bans are unknown\.\n$/);
    expect(JSON.parse(result.stdout)).toEqual([expect.objectContaining({ id, requestsLeftToday: null, banned: null })]);
    expect(unban).toMatchObject({ exitCode: 1, stdout: '' });
    expect(unban.stderr).toMatch(/^error: Redis .*, so the ban may still apply; check REDIS_URL and retry\.\n$/);
  });
});
