import { Module } from '@nestjs/common';
import { ThrottlerModule } from '@nestjs/throttler';
import { ApiKeysModule } from '../api-keys/api-keys.module.js';
import { ANONYMOUS_QUOTAS } from '../plans/plans.js';
import { RateLimitModule } from '../rate-limit/rate-limit.module.js';
import { MINUTE_MS } from '../rate-limit/decision.js';
import { AdmissionService } from './admission.service.js';
import { ClientAddress } from './client-address.js';

/** Who calls, and whether they may: identifies the caller, counts the request, and decides. */
@Module({
  imports: [
    ApiKeysModule,
    RateLimitModule,
    // The library's guard needs a throttler; PlanThrottlerGuard skips it.
    ThrottlerModule.forRoot([{ ttl: MINUTE_MS, limit: ANONYMOUS_QUOTAS.requestsPerMinute }]),
  ],
  providers: [AdmissionService, ClientAddress],
  exports: [AdmissionService, ThrottlerModule],
})
export class AdmissionModule {}
