import { Module } from '@nestjs/common';
import { ThrottlerModule } from '@nestjs/throttler';
import { CLOCK, type Clock } from '../common/clock.js';
import { CONFIG, type Config } from '../config/config.js';
import { DatabaseModule } from '../database/database.module.js';
import { Metrics } from '../metrics/metrics.js';
import { ANONYMOUS_QUOTAS } from '../plans/plans.js';
import { UsageModule } from '../usage/usage.module.js';
import { MINUTE_MS } from './decision.js';
import { MemoryQuotaStore, type QuotaStore } from './memory-quota-store.js';
import { KEY_QUOTA_STORE, RateLimiter } from './rate-limiter.js';

@Module({
  imports: [
    DatabaseModule,
    UsageModule,
    // The guard calls `handleRequest` once for each throttler, so there is one. Its numbers have no effect: those of the plan count.
    ThrottlerModule.forRoot([{ ttl: MINUTE_MS, limit: ANONYMOUS_QUOTAS.requestsPerMinute }]),
  ],
  providers: [
    RateLimiter,
    { provide: KEY_QUOTA_STORE, inject: [CONFIG, CLOCK, Metrics], useFactory: openKeyQuotaStore },
  ],
  exports: [RateLimiter],
})
export class RateLimitModule {}

/** Counts in Redis if `REDIS_URL` is set, so that replicas share the counts, and in the memory of this process otherwise. */
async function openKeyQuotaStore(
  { redisUrl, ban: banRule }: Config,
  clock: Clock,
  metrics: Metrics,
): Promise<QuotaStore> {
  const options = { clock, banRule, bans: metrics.bans.labels('key') };
  if (redisUrl === undefined) {
    return new MemoryQuotaStore(options);
  }
  // Imported on demand: without Redis it would only cost time and memory.
  const { RedisQuotaStore } = await import('./redis-quota-store.js');
  metrics.recoveries.inc({ dependency: 'redis' }, 0);
  const store = await RedisQuotaStore.connect(redisUrl, { ...options, recoveries: metrics.recoveries.labels('redis') });
  metrics.watch('limiterDegraded', () => store.degraded);
  return store;
}
