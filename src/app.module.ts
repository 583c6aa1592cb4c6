import { type DynamicModule, type LoggerService, Module, type Provider } from '@nestjs/common';
import { APP_FILTER, APP_GUARD } from '@nestjs/core';
import { ThrottlerModule } from '@nestjs/throttler';
import { ApiKeyGuard, PlanThrottlerGuard } from './admission/admission.guards.js';
import { AdmissionService } from './admission/admission.service.js';
import { ClientAddress } from './admission/client-address.js';
import { ApiKeyNotifications } from './api-keys/api-key-notifications.js';
import { ApiKeysRepository } from './api-keys/api-keys.repository.js';
import { ApiKeysService } from './api-keys/api-keys.service.js';
import { IssuedDigests } from './api-keys/issued-digests.js';
import { UsageRecorder } from './api-keys/usage/usage-recorder.js';
import { CLOCK, type Clock } from './common/clock.js';
import { CONFIG, type Config } from './config/config.js';
import { DatabaseListener } from './database/database-listener.js';
import { Pools } from './database/pools.js';
import { PrismaService } from './database/prisma.service.js';
import { HealthController, HealthService } from './health/health.js';
import { REQUEST_LOG, type RequestLog } from './logging/json-logger.js';
import { Metrics } from './metrics/metrics.js';
import { OrdersModule } from './orders/orders.module.js';
import { ANONYMOUS_QUOTAS } from './plans/plans.js';
import { MINUTE_MS } from './rate-limit/decision.js';
import { RateLimiter } from './rate-limit/rate-limiter.js';
import { AllExceptionsFilter } from './server/exception.filter.js';
import { RequestHandler } from './server/request-handler.js';
import { RequestObserver } from './server/request-observer.js';

/** What the application is given besides its configuration. */
export interface AppOptions {
  /** For limits and key expiry; the system's by default. */
  readonly clock?: Clock;
  readonly logger?: LoggerService | false;
  /** Gets one line per request; nothing does by default. */
  readonly requestLog?: RequestLog;
  /** The key of the demo data that Swagger UI is filled in with. */
  readonly demoKey?: string | undefined;
}

@Module({
  imports: [
    OrdersModule,
    // The library's guard needs a throttler; PlanThrottlerGuard skips it.
    ThrottlerModule.forRoot([{ ttl: MINUTE_MS, limit: ANONYMOUS_QUOTAS.requestsPerMinute }]),
  ],
  controllers: [HealthController],
  providers: [
    HealthService,
    // Who calls, and whether they may. The first guard rejects by limits, the second by key.
    ...[IssuedDigests, ApiKeysService, ApiKeyNotifications, AdmissionService, ClientAddress, RateLimiter],
    { provide: APP_GUARD, useClass: PlanThrottlerGuard },
    { provide: APP_GUARD, useClass: ApiKeyGuard },
    // The HTTP server.
    ...[RequestHandler, RequestObserver, AllExceptionsFilter],
    { provide: APP_FILTER, useExisting: AllExceptionsFilter },
  ],
})
export class AppModule {
  static with(config: Config, options: AppOptions = {}): DynamicModule {
    const providers: Provider[] = [
      { provide: CONFIG, useValue: config },
      { provide: CLOCK, useValue: options.clock ?? Date },
      { provide: REQUEST_LOG, useValue: options.requestLog ?? null },
      ...[Metrics, Pools, PrismaService, DatabaseListener, ApiKeysRepository, UsageRecorder],
    ];
    return { module: AppModule, imports: [{ module: SharedModule, global: true, providers, exports: providers }] };
  }
}

/** What every module may use. */
class SharedModule {}
