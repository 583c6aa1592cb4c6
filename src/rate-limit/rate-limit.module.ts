import { Module } from '@nestjs/common';
import { CLOCK, type Clock } from '../common/clock.js';
import { CONFIG, type Config } from '../config/config.js';
import { DatabaseListener } from '../database/database-listener.js';
import { API_KEY_UNBANNED_CHANNEL } from '../database/notification-channels.js';
import { Metrics } from '../metrics/metrics.js';
import { MemoryQuotaStore } from './memory-quota-store.js';
import { QUOTA_STORE, type QuotaStore } from './quota-store.js';
import { connectRedis } from './redis-connection.js';
import { RedisQuotaStore } from './redis-quota-store.js';
import { isKeySubject, subjectOfKey } from './subject.js';

/** How long a start waits for Redis before the service starts without it. Milliseconds. */
const READY_TIMEOUT_MS = 2_000;

@Module({
  providers: [
    { provide: QUOTA_STORE, inject: [CLOCK, CONFIG, DatabaseListener, Metrics], useFactory: createQuotaStore },
  ],
  exports: [QUOTA_STORE],
})
export class RateLimitModule {}

/** Creates the store that counts requests: in Redis when `REDIS_URL` is set, in memory otherwise. */
async function createQuotaStore(
  clock: Clock,
  { redisUrls, ban: banRule }: Config,
  listener: DatabaseListener,
  metrics: Metrics,
): Promise<QuotaStore> {
  const onBan = (subject: string): void => {
    metrics.bans.labels(isKeySubject(subject) ? 'key' : 'address').inc();
  };
  const onRecovered = (): void => {
    metrics.recoveries.labels('redis').inc();
  };
  const store =
    redisUrls.length === 0
      ? new MemoryQuotaStore(clock, banRule, onBan)
      : new RedisQuotaStore({ redis: connectRedis(redisUrls), clock, banRule, onBan, onRecovered });
  listener.subscribe({
    channel: API_KEY_UNBANNED_CHANNEL,
    onMessage: (keyId) => {
      store.liftBan(subjectOfKey(keyId));
    },
  });
  if (store instanceof RedisQuotaStore) {
    metrics.recoveries.labels('redis');
    metrics.watch('limiterDegraded', () => store.degraded);
    metrics.watch('limiterClockOffset', () => store.clockOffsetMs / 1_000);
    await store.untilReady(READY_TIMEOUT_MS);
  }
  return store;
}
