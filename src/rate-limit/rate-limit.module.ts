import { Module } from '@nestjs/common';
import { ThrottlerModule } from '@nestjs/throttler';
import { ApiKeysModule } from '../api-keys/api-keys.module.js';
import { ClientAddress } from '../http/client-address.js';
import { AdmissionService } from './admission.service.js';
import { BanSharing } from './ban-sharing.js';
import { ANONYMOUS_QUOTAS } from './plans.js';
import { QuotaStoreFactory } from './quota-store.factory.js';
import { QUOTA_STORE } from './quota-store.js';
import { MINUTE_MS } from './windows.js';

@Module({
  imports: [
    ApiKeysModule,
    // The frame wants one throttler to run; the decision, and with it these figures, is PlanThrottlerGuard's.
    ThrottlerModule.forRoot([{ ttl: MINUTE_MS, limit: ANONYMOUS_QUOTAS.requestsPerMinute }]),
  ],
  providers: [
    BanSharing,
    QuotaStoreFactory,
    { provide: QUOTA_STORE, inject: [QuotaStoreFactory], useFactory: (stores: QuotaStoreFactory) => stores.create() },
    AdmissionService,
    ClientAddress,
  ],
  exports: [AdmissionService],
})
export class RateLimitModule {}
