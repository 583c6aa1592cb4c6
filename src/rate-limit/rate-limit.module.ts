import { Module } from '@nestjs/common';
import { ThrottlerModule } from '@nestjs/throttler';
import { ApiKeysModule } from '../api-keys/api-keys.module.js';
import { CLOCK, type Clock } from '../clock.js';
import { CONFIG, type Config } from '../config/config.js';
import { ClientAddress } from '../http/client-address.js';
import { AdmissionService } from './admission.service.js';
import { BanLifting } from './ban-lifting.js';
import { MemoryQuotaStore } from './memory-quota-store.js';
import { ANONYMOUS_QUOTAS } from './plans.js';
import { QUOTA_STORE } from './quota-store.js';
import { MINUTE_MS } from './windows.js';

@Module({
  imports: [
    ApiKeysModule,
    // The frame wants one throttler to run; the decision, and with it these figures, is PlanThrottlerGuard's.
    ThrottlerModule.forRoot([{ ttl: MINUTE_MS, limit: ANONYMOUS_QUOTAS.requestsPerMinute }]),
  ],
  providers: [
    {
      provide: QUOTA_STORE,
      inject: [CLOCK, CONFIG],
      useFactory: (clock: Clock, config: Config) => new MemoryQuotaStore(clock, config.ban),
    },
    AdmissionService,
    BanLifting,
    ClientAddress,
  ],
  exports: [AdmissionService],
})
export class RateLimitModule {}
