import { chmodSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { UsageRecorder } from '../../src/usage/usage-recorder.js';
import { Metrics } from '../../src/metrics/metrics.js';
import { cancelOrder } from '../helpers/api.js';
import { FailingPostgres } from '../helpers/failing-postgres.js';
import { describeWithRedis, RedisServer } from '../helpers/redis-server.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { startTestService, useTestService } from '../helpers/test-service.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';
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

describe('the archive of PostgreSQL', () => {
  const folder = useTemporaryFolder('archive');

  it('is exported as failing, with the rights of the service, until it succeeds', async () => {
    const archive = join(folder, 'archive');
    const command = `test -d ${archive} && cp %p ${archive}/%f`;
    const postgres = await FailingPostgres.create({ archive_mode: 'on', archive_command: command });
    const db = postgres.pool(1);
    const service = await startTestService({ database: { url: postgres.serviceUrl, db, drop: () => db.end() } });
    const failing = async (): Promise<number> =>
      (await ServiceMetrics.of(service.app)).sum('petstore_wal_archive_failing');
    try {
      expect(await failing()).toBe(0);
      await db.query('SELECT pg_switch_wal()');
      await waitFor(async () => (await failing()) === 1, 'the archive fails', { withinMs: 30_000 });

      await postgres.stop();
      expect(await failing()).toBe(1);

      chmodSync(folder, 0o755);
      mkdirSync(archive);
      chmodSync(archive, 0o777);
      await postgres.start();
      await waitFor(async () => (await failing()) === 0, 'the archive succeeds', { withinMs: 30_000 });
    } finally {
      await service.stop();
      await db.end();
      await postgres.discard();
    }
  });
});
