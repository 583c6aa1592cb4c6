import { Inject, Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { CLOCK, type Clock } from '../common/clock.js';
import { CONFIG, type Config } from '../config/config.js';
import { DatabaseListener } from '../database/database-listener.js';
import { API_KEY_UNBANNED_CHANNEL } from '../database/notification-channels.js';
import { Metrics } from '../metrics/metrics.js';
import { MemoryQuotaStore, type QuotaStore } from './memory-quota-store.js';
import { connectRedis, type LimitRedis, untilReady } from './redis-connection.js';
import { RedisQuotaStore } from './redis-quota-store.js';

/** Has the counts of keys, in Redis when `REDIS_URL` is set, and those of addresses, which are always in memory. */
@Injectable()
export class RateLimiter implements OnModuleInit, OnApplicationShutdown {
  /** By the id of the key. */
  readonly keys: QuotaStore;
  /** By the network of the address. A store of its own, so that a flood from many addresses evicts no key. */
  readonly addresses: QuotaStore;
  readonly #redis: LimitRedis | undefined;

  constructor(
    @Inject(CLOCK) clock: Clock,
    @Inject(CONFIG) { redisUrl, ban: banRule }: Config,
    listener: DatabaseListener,
    metrics: Metrics,
  ) {
    this.addresses = new MemoryQuotaStore({ clock, banRule, bans: metrics.bans.labels('address') });
    const options = { clock, banRule, bans: metrics.bans.labels('key') };
    if (redisUrl === undefined) {
      this.keys = new MemoryQuotaStore(options);
    } else {
      const redis = connectRedis(redisUrl);
      const store = new RedisQuotaStore({ ...options, redis, recoveries: metrics.recoveries.labels('redis') });
      metrics.watch('limiterDegraded', () => store.degraded);
      metrics.watch('limiterClockOffset', () => store.clockOffsetMs / 1_000);
      this.#redis = redis;
      this.keys = store;
    }
    listener.subscribe({
      channel: API_KEY_UNBANNED_CHANNEL,
      onMessage: (keyId) => {
        this.keys.liftBan(keyId);
      },
    });
  }

  async onModuleInit(): Promise<void> {
    if (this.#redis !== undefined) {
      await untilReady(this.#redis);
    }
  }

  onApplicationShutdown(): void {
    this.#redis?.disconnect();
  }
}
