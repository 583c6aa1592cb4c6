import { Module } from '@nestjs/common';
import { ThrottlerModule } from '@nestjs/throttler';
import { ApiKeysModule } from '../api-keys/api-keys.module.js';
import { ANONYMOUS_QUOTAS } from '../plans/plans.js';
import { RateLimitModule } from '../rate-limit/rate-limit.module.js';
import { MINUTE_MS } from '../rate-limit/decision.js';
import { AdmissionService } from './admission.service.js';
import { CachedReflector } from './cached-reflector.js';
import { ClientAddress } from './client-address.js';

/** Who calls, and whether they may: identifies the caller, counts the request, and decides. */
@Module({
  imports: [
    ApiKeysModule,
    RateLimitModule,
    // The library needs one throttler to run its guard; PlanThrottlerGuard decides, whatever these numbers are.
    ThrottlerModule.forRoot([{ ttl: MINUTE_MS, limit: ANONYMOUS_QUOTAS.requestsPerMinute }]),
  ],
  providers: [AdmissionService, CachedReflector, ClientAddress],
  exports: [AdmissionService, CachedReflector, ThrottlerModule],
})
export class AdmissionModule {}
