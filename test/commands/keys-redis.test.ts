import { redisKeyOf } from '../../src/rate-limit/redis-script.js';
import { call } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { petstore } from '../helpers/petstore.js';
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
    let left = NaN;
    try {
      for (let number = 0; number < 3; number++) {
        const response = await call(service.baseUrl, 'HEAD', '/store/orders', key);
        expect(response.status).toBe(200);
        left = Number(/"day";r=(\d+)/.exec(response.headers.get('ratelimit') ?? '')?.[1]);
      }
    } finally {
      await service.stop();
    }
    expect(left).toBeLessThan(10_000);
    // The commands run on the day in which Redis has counted.
    const dayEnd = Number(await redis.administrate((admin) => admin.hget(redisKeyOf(id), 'de')));
    jest.spyOn(Date, 'now').mockReturnValue(dayEnd * 1_000 - 1);
    const first = await keysJson(['list'], redis.url);
    expect(first).toEqual([
      expect.objectContaining({ id, state: 'active', requestsLeftToday: left, banned: false, bannedUntil: null }),
    ]);
    expect(await keysJson(['list'], redis.url)).toEqual(first);
    expect([await keysJson(['show', id], redis.url)]).toEqual(first);
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

describeWithRedis('while Redis does not respond', () => {
  let silent: RedisServer;
  beforeAll(async () => {
    silent = await RedisServer.start();
    silent.freeze();
  });
  afterAll(() => silent.stop());

  it('keys list works with a warning', async () => {
    const { id } = await insertKey(database.db);
    const environment = { DATABASE_URL: database.url, REDIS_URL: silent.url };
    const { exitCode, stdout, stderr } = await petstore(['keys', 'list', '--json'], environment);
    expect(exitCode).toBe(0);
    expect(stderr).toMatch(/^warning: Redis cannot be used \(.*; remaining requests and bans are unknown\.\n$/);
    expect(JSON.parse(stdout)).toEqual([expect.objectContaining({ id, requestsLeftToday: null, banned: null })]);
  });

  it('keys unban fails, and notifies the services: each decides with a ban of its own then', async () => {
    const { id } = await insertKey(database.db);
    const client = await database.db.connect();
    const unbanned: (string | undefined)[] = [];
    client.on('notification', ({ payload }) => unbanned.push(payload));
    await client.query('LISTEN api_key_unbanned');
    const environment = { DATABASE_URL: database.url, REDIS_URL: silent.url };
    const { exitCode, stderr } = await petstore(['keys', 'unban', id], environment);
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/^error: Redis .*, so the ban may still apply; check REDIS_URL and retry\.\n$/);
    // What was sent before arrives with the response.
    await client.query('UNLISTEN *');
    client.release(true);
    expect(unbanned).toEqual([id]);
  });
});
