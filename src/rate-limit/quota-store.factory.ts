import { Inject, Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { CLOCK, type Clock } from '../common/clock.js';
import { CONFIG, type Config } from '../config/config.js';
import { Metrics } from '../metrics/metrics.js';
import { BanSharing } from './ban-sharing.js';
import { MemoryQuotaStore } from './memory-quota-store.js';
import type { QuotaStore } from './quota-store.js';
import { connectRedis, type LimitRedis, untilReady } from './redis-connection.js';
import { RedisQuotaStore } from './redis-quota-store.js';
import { isKeySubject } from './subject.js';

/** How long a start waits for Redis before it goes ahead without. Milliseconds. */
const READY_WAIT_MS = 2_000;

/** Chooses where requests are counted: in Redis where `REDIS_URL` is set, in memory otherwise. */
@Injectable()
export class QuotaStoreFactory implements OnApplicationShutdown {
  #redis: LimitRedis | undefined;

  constructor(
    @Inject(CLOCK) private readonly clock: Clock,
    @Inject(CONFIG) private readonly config: Config,
    private readonly bans: BanSharing,
    private readonly metrics: Metrics,
  ) {}

  async create(): Promise<QuotaStore> {
    const memory = new MemoryQuotaStore(this.clock, this.config.ban, (subject) => {
      this.#countBan(subject);
    });
    const store = this.config.redisUrls.length === 0 ? memory : await this.#createOverRedis(memory);
    this.bans.shareLifts(store);
    return store;
  }

  onApplicationShutdown(): void {
    this.#redis?.disconnect();
  }

  #countBan(subject: string): void {
    this.metrics.bans.inc({ subject: isKeySubject(subject) ? 'key' : 'address' });
  }

  async #createOverRedis(fallback: MemoryQuotaStore): Promise<RedisQuotaStore> {
    const redis = connectRedis(this.config.redisUrls);
    this.#redis = redis;
    const store = new RedisQuotaStore({
      redis,
      clock: this.clock,
      banRule: this.config.ban,
      fallback,
      onBan: (subject, bannedUntilMs) => {
        this.#countBan(subject);
        this.bans.announce(subject, bannedUntilMs);
      },
    });
    this.bans.onBanElsewhere((subject, bannedUntilMs) => {
      store.recordBan(subject, bannedUntilMs);
    });
    this.metrics.watchDegraded(() => store.degraded);
    await untilReady(redis, READY_WAIT_MS);
    return store;
  }
}
