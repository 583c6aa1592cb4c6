import { Inject, Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { CLOCK, type Clock } from '../common/clock.js';
import { inBackground } from '../common/in-background.js';
import { CONFIG, type Config } from '../config/config.js';
import { DatabaseListener } from '../database/database-listener.js';
import { API_KEY_UNBANNED_CHANNEL } from '../database/notification-channels.js';
import { Metrics } from '../metrics/metrics.js';
import { FallbackQuotaStore, type FallbackQuotaStoreOptions } from './fallback-quota-store.js';
import { MemoryQuotaStore } from './memory-quota-store.js';
import type { QuotaStore } from './quota-store.js';
import { connectRedis, type LimitRedis, untilReady } from './redis-connection.js';
import { isKeySubject, subjectOfKey } from './subject.js';

/** How long a start waits for Redis before the service starts without it. Milliseconds. */
const READY_TIMEOUT_MS = 2_000;

/** Creates the store that counts requests: in Redis when `REDIS_URL` is set, in memory otherwise. */
@Injectable()
export class QuotaStoreFactory implements OnApplicationShutdown {
  #redis: LimitRedis | undefined;

  constructor(
    @Inject(CLOCK) private readonly clock: Clock,
    @Inject(CONFIG) private readonly config: Config,
    private readonly listener: DatabaseListener,
    private readonly metrics: Metrics,
  ) {}

  async create(): Promise<QuotaStore> {
    const { redisUrls, ban: banRule } = this.config;
    const onBan = (subject: string): void => {
      this.metrics.bans.inc({ subject: isKeySubject(subject) ? 'key' : 'address' });
    };
    const store =
      redisUrls.length === 0
        ? new MemoryQuotaStore(this.clock, banRule, onBan)
        : await this.#createOverRedis(redisUrls, { clock: this.clock, banRule, onBan });
    this.listener.subscribe({
      channel: API_KEY_UNBANNED_CHANNEL,
      onMessage: (keyId) => {
        inBackground(Promise.resolve(store.liftBan(subjectOfKey(keyId))));
      },
    });
    return store;
  }

  onApplicationShutdown(): void {
    this.#redis?.disconnect();
  }

  async #createOverRedis(
    urls: readonly string[],
    options: Omit<FallbackQuotaStoreOptions, 'redis' | 'onRecovered'>,
  ): Promise<FallbackQuotaStore> {
    this.#redis = connectRedis(urls);
    const store = new FallbackQuotaStore({
      redis: this.#redis,
      ...options,
      onRecovered: () => {
        this.metrics.recoveries.inc({ dependency: 'redis' });
      },
    });
    this.metrics.recoveries.inc({ dependency: 'redis' }, 0);
    this.metrics.watchLimiterStore(store);
    await untilReady(this.#redis, READY_TIMEOUT_MS);
    return store;
  }
}
