import { UsageRecorder } from '../../src/usage/usage-recorder.js';
import { Metrics } from '../../src/metrics/metrics.js';
import { cancelOrder } from '../helpers/api.js';
import { describeWithRedis, RedisServer } from '../helpers/redis-server.js';
import { useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

describeWithRedis('the service exports for alerts', () => {
  let redis: RedisServer;
  const environment: Record<string, string> = {};
  beforeAll(async () => {
    redis = await RedisServer.start();
    environment.REDIS_URL = redis.url;
  });
  afterAll(() => redis.stop());
  const context = useTestService({ environment });

  async function metric(name: string): Promise<number | undefined> {
    const exported = await context.service.app.get(Metrics).registry.getSingleMetric(name)?.get();
    return exported?.values[0]?.value;
  }

  it('the difference between its clock and that of Redis', async () => {
    await cancelOrder(context.service.baseUrl, '1', context.key);
    const expected = (Date.now() - context.service.clock.now()) / 1_000;
    const offset = await metric('petstore_limiter_clock_offset_seconds');
    expect(Math.abs(Number(offset) - expected)).toBeLessThan(60);
  });

  it('that it counts without Redis', async () => {
    expect(await metric('petstore_limiter_store_degraded')).toBe(0);
    await redis.kill();
    await waitFor(async () => {
      await cancelOrder(context.service.baseUrl, '1', context.key);
      return (await metric('petstore_limiter_store_degraded')) === 1;
    }, 'the service counts without Redis');
    await redis.restart();
  });

  it('that it cannot write the usage', async () => {
    await cancelOrder(context.service.baseUrl, '1', context.key);
    await context.service.db.query('ALTER TABLE api_key_usage RENAME TO elsewhere');
    await context.service.app.get(UsageRecorder).flush();
    await context.service.db.query('ALTER TABLE elsewhere RENAME TO api_key_usage');
    expect(await metric('petstore_usage_flush_failures_total')).toBe(1);
  });
});
