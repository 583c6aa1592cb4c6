import { Inject, Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { CLOCK, type Clock } from '../common/clock.js';
import { CONFIG, type Config } from '../config/config.js';
import { DatabaseListener } from '../database/database-listener.js';
import { API_KEY_UNBANNED_CHANNEL } from '../database/notification-channels.js';
import { Metrics } from '../metrics/metrics.js';
import { MemoryQuotaStore, type QuotaStore, type QuotaStoreOptions } from './memory-quota-store.js';
import type { RedisQuotaStore } from './redis-quota-store.js';

/** Counts the requests of keys (in Redis if `REDIS_URL` is set) and of addresses (in memory). */
@Injectable()
export class RateLimiter implements OnModuleInit, OnApplicationShutdown {
  /** By the id of the key. */
  keys: QuotaStore;
  /** By the network of the address. A store of its own, so that a flood from many addresses evicts no key. */
  readonly addresses: QuotaStore;
  readonly #redisStore: Promise<RedisQuotaStore> | undefined;

  constructor(
    @Inject(CLOCK) clock: Clock,
    @Inject(CONFIG) { redisUrl, ban: banRule }: Config,
    listener: DatabaseListener,
    private readonly metrics: Metrics,
  ) {
    this.addresses = new MemoryQuotaStore({ clock, banRule, bans: metrics.bans.labels('address') });
    const options = { clock, banRule, bans: metrics.bans.labels('key') };
    this.keys = new MemoryQuotaStore(options);
    this.#redisStore = redisUrl === undefined ? undefined : this.#connect(redisUrl, options);
    listener.on(API_KEY_UNBANNED_CHANNEL, (keyId) => {
      this.keys.liftBan(keyId);
    });
  }

  async onModuleInit(): Promise<void> {
    this.keys = (await this.#redisStore) ?? this.keys;
  }

  async onApplicationShutdown(): Promise<void> {
    (await this.#redisStore)?.disconnect();
  }

  async #connect(redisUrl: string, options: QuotaStoreOptions): Promise<RedisQuotaStore> {
    // Imported on demand: without Redis it would only cost time and memory.
    const { RedisQuotaStore } = await import('./redis-quota-store.js');
    const recoveries = this.metrics.recoveries.labels('redis');
    const store = await RedisQuotaStore.connect(redisUrl, { ...options, recoveries });
    this.metrics.watch('limiterDegraded', () => store.degraded);
    this.metrics.watch('limiterClockOffset', () => store.clockOffsetMs / 1_000);
    return store;
  }
}
