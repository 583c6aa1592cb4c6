import { Module } from '@nestjs/common';
import { ThrottlerModule } from '@nestjs/throttler';
import { DatabaseModule } from '../database/database.module.js';
import { ANONYMOUS_QUOTAS } from '../plans/plans.js';
import { UsageModule } from '../usage/usage.module.js';
import { MINUTE_MS } from './decision.js';
import { RateLimiter } from './rate-limiter.js';

@Module({
  imports: [
    DatabaseModule,
    UsageModule,
    // The guard calls `handleRequest` once for each throttler, so there is one. Its numbers have no effect: those of the plan count.
    ThrottlerModule.forRoot([{ ttl: MINUTE_MS, limit: ANONYMOUS_QUOTAS.requestsPerMinute }]),
  ],
  providers: [RateLimiter],
  exports: [RateLimiter],
})
export class RateLimitModule {}
