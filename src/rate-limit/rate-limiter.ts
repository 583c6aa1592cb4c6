import { Inject, Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { CLOCK, type Clock } from '../common/clock.js';
import { CONFIG, type Config } from '../config/config.js';
import { DatabaseListener } from '../database/database-listener.js';
import { API_KEY_UNBANNED_CHANNEL } from '../database/notification-channels.js';
import { Metrics } from '../metrics/metrics.js';
import { MemoryQuotaStore, type QuotaStore, type QuotaStoreOptions } from './memory-quota-store.js';
import type { LimitRedis } from './redis-connection.js';

/** Has the counts of keys, in Redis when `REDIS_URL` is set, and those of addresses, which are always in memory. */
@Injectable()
export class RateLimiter implements OnModuleInit, OnApplicationShutdown {
  /** By the id of the key. */
  keys: QuotaStore;
  /** By the network of the address. A store of its own, so that a flood from many addresses evicts no key. */
  readonly addresses: QuotaStore;
  readonly #redis: Promise<LimitRedis | undefined>;

  constructor(
    @Inject(CLOCK) clock: Clock,
    @Inject(CONFIG) { redisUrl, ban: banRule }: Config,
    listener: DatabaseListener,
    private readonly metrics: Metrics,
  ) {
    this.addresses = new MemoryQuotaStore({ clock, banRule, bans: metrics.bans.labels('address') });
    const options = { clock, banRule, bans: metrics.bans.labels('key') };
    this.keys = new MemoryQuotaStore(options);
    this.#redis = redisUrl === undefined ? Promise.resolve(undefined) : this.#useRedis(redisUrl, options);
    listener.subscribe({
      channel: API_KEY_UNBANNED_CHANNEL,
      onMessage: (keyId) => {
        this.keys.liftBan(keyId);
      },
    });
  }

  async onModuleInit(): Promise<void> {
    await this.#redis;
  }

  async onApplicationShutdown(): Promise<void> {
    (await this.#redis)?.disconnect();
  }

  /** Resolves when Redis is ready, or after a while without it. */
  async #useRedis(url: string, options: QuotaStoreOptions): Promise<LimitRedis> {
    // Imported on demand: without Redis it would only cost time and memory.
    const { connectRedis, untilReady } = await import('./redis-connection.js');
    const { RedisQuotaStore } = await import('./redis-quota-store.js');
    const redis = connectRedis(url);
    const store = new RedisQuotaStore({ ...options, redis, recoveries: this.metrics.recoveries.labels('redis') });
    this.metrics.watch('limiterDegraded', () => store.degraded);
    this.metrics.watch('limiterClockOffset', () => store.clockOffsetMs / 1_000);
    this.keys = store;
    await untilReady(redis);
    return redis;
  }
}
