import { type DynamicModule, type LoggerService, Module, type Provider } from '@nestjs/common';
import { APP_FILTER, APP_GUARD } from '@nestjs/core';
import { AllExceptionsFilter } from './all-exceptions.filter.js';
import { ApiKeyGuard } from './api-keys/api-key.guard.js';
import { ApiKeysModule } from './api-keys/api-keys.module.js';
import { CLOCK, type Clock } from './common/clock.js';
import { CONFIG, type Config } from './config/config.js';
import { HealthModule } from './health/health.module.js';
import { RequestObserver } from './http/request-observer.js';
import { UnmatchedController } from './http/unmatched.controller.js';
import { REQUEST_LOG, type RequestLog } from './logging/create-logger.js';
import { Metrics } from './metrics/metrics.js';
import { IndexController } from './openapi/index.controller.js';
import { OrdersModule } from './orders/orders.module.js';
import { PlanThrottlerGuard } from './rate-limit/plan-throttler.guard.js';
import { RateLimitModule } from './rate-limit/rate-limit.module.js';

/** What the application is given besides its configuration. */
export interface AppOptions {
  /** For limits and key expiry; the system's by default. */
  readonly clock?: Clock;
  readonly logger?: LoggerService | false;
  /** Gets the line of each request; nothing does by default. */
  readonly requestLog?: RequestLog | undefined;
  /** The key of the demo data that Swagger UI is filled in with. */
  readonly demoKey?: string | undefined;
}

@Module({
  imports: [ApiKeysModule, RateLimitModule, OrdersModule, HealthModule],
  controllers: [IndexController, UnmatchedController],
  providers: [
    // In this order, so not in their modules: who calls, then whether that key is over a limit of its plan. The first one also counts
    // and rejects requests without a valid key (429, or else 401).
    { provide: APP_GUARD, useClass: ApiKeyGuard },
    { provide: APP_GUARD, useClass: PlanThrottlerGuard },
    { provide: APP_FILTER, useClass: AllExceptionsFilter },
    RequestObserver,
  ],
})
export class AppModule {
  static with(config: Config, options: AppOptions = {}): DynamicModule {
    const providers: Provider[] = [
      { provide: CONFIG, useValue: config },
      { provide: CLOCK, useValue: options.clock ?? Date },
      { provide: REQUEST_LOG, useValue: options.requestLog ?? null },
      Metrics,
    ];
    return { module: AppModule, imports: [{ module: SettingsModule, global: true, providers, exports: providers }] };
  }
}

/** What every module may use. */
class SettingsModule {}
