import { type DynamicModule, type LoggerService, Module, type Provider } from '@nestjs/common';
import { APP_FILTER, APP_GUARD } from '@nestjs/core';
import { type Logger, pino } from 'pino';
import { ApiKeyGuard } from './admission/api-key.guard.js';
import { AdmissionModule } from './admission/admission.module.js';
import { ApiKeysModule } from './api-keys/api-keys.module.js';
import { CLOCK, type Clock, systemClock } from './common/clock.js';
import { CONFIG, type Config } from './config/config.js';
import { AllExceptionsFilter } from './server/exception.filter.js';
import { HealthController } from './health/health.controller.js';
import { HealthService } from './health/health.service.js';
import { RequestObserver } from './server/request-observer.js';
import { OrdersModule } from './orders/orders.module.js';
import { REQUEST_LOGGER } from './logging/pino-logger.js';
import { Metrics } from './metrics/metrics.js';
import { DatabaseModule } from './database/database.module.js';
import { PlanThrottlerGuard } from './admission/plan-throttler.guard.js';
import { NO_TRACING, TRACING, type Tracing } from './tracing/tracing.js';
import { WarmUp } from './server/warm-up.service.js';

/** What the application is given besides its configuration. */
export interface AppOptions {
  /** For limits and key expiry; the system's by default. */
  readonly clock?: Clock;
  readonly logger?: LoggerService | false;
  /** Gets one line per request; silent by default. */
  readonly requestLogger?: Logger;
  /** Where spans go; nowhere by default. */
  readonly tracing?: Tracing | undefined;
  /** The key of the demo data that Swagger UI is filled in with. */
  readonly demoKey?: string | undefined;
}

@Module({})
export class AppModule {
  static with(config: Config, options: AppOptions = {}): DynamicModule {
    return {
      module: AppModule,
      imports: [
        globals([
          { provide: CONFIG, useValue: config },
          { provide: CLOCK, useValue: options.clock ?? systemClock },
          { provide: REQUEST_LOGGER, useValue: options.requestLogger ?? pino({ level: 'silent' }) },
          { provide: TRACING, useValue: options.tracing ?? NO_TRACING },
          { provide: Metrics, useFactory: () => new Metrics() },
        ]),
        DatabaseModule,
        ApiKeysModule,
        AdmissionModule,
        OrdersModule,
      ],
      controllers: [HealthController],
      providers: [
        HealthService,
        RequestObserver,
        WarmUp,
        // The order is the order of the checks: limits first, so that failed keys are counted, then the key.
        { provide: APP_GUARD, useClass: PlanThrottlerGuard },
        { provide: APP_GUARD, useClass: ApiKeyGuard },
        AllExceptionsFilter,
        { provide: APP_FILTER, useExisting: AllExceptionsFilter },
      ],
    };
  }
}

class GlobalsModule {}

function globals(providers: Provider[]): DynamicModule {
  return { module: GlobalsModule, global: true, providers, exports: providers };
}
