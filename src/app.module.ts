import { type DynamicModule, Module, type Provider } from '@nestjs/common';
import { APP_FILTER, APP_GUARD } from '@nestjs/core';
import type { Logger } from 'pino';
import { ApiKeyGuard } from './admission/api-key.guard.js';
import { AdmissionModule } from './admission/admission.module.js';
import { ApiKeysModule } from './api-keys/api-keys.module.js';
import { CLOCK, type Clock } from './common/clock.js';
import { CONFIG, type Config } from './config/config.js';
import { AllExceptionsFilter } from './server/exception.filter.js';
import { HealthModule } from './health/health.module.js';
import { RequestObserver } from './server/request-observer.js';
import { UnmatchedModule } from './server/unmatched.module.js';
import { OrdersModule } from './orders/orders.module.js';
import { REQUEST_LOGGER } from './logging/request-logger.js';
import { MetricsModule } from './metrics/metrics.module.js';
import { DatabaseModule } from './database/database.module.js';
import { PlanThrottlerGuard } from './admission/plan-throttler.guard.js';
import { TRACING, type Tracing } from './tracing/tracing.js';
import { WarmUp } from './server/warm-up.service.js';

/** What the application is given from outside. */
export interface AppContext {
  readonly config: Config;
  /** What time it is, for limits and key expiry. */
  readonly clock: Clock;
  readonly requestLogger: Logger;
  readonly tracing: Pick<Tracing, 'statement'>;
}

@Module({})
export class AppModule {
  static with({ config, clock, requestLogger, tracing }: AppContext): DynamicModule {
    return {
      module: AppModule,
      // UnmatchedModule comes last: its routes answer whatever the others leave.
      imports: [
        settings([
          { provide: CONFIG, useValue: config },
          { provide: CLOCK, useValue: clock },
          { provide: REQUEST_LOGGER, useValue: requestLogger },
          { provide: TRACING, useValue: tracing },
        ]),
        MetricsModule,
        DatabaseModule,
        ApiKeysModule,
        AdmissionModule,
        OrdersModule,
        HealthModule,
        UnmatchedModule,
      ],
      providers: [
        RequestObserver,
        WarmUp,
        // The order is the order of the checks: limits first, so that failed keys are counted, then the key.
        { provide: APP_GUARD, useClass: PlanThrottlerGuard },
        { provide: APP_GUARD, useClass: ApiKeyGuard },
        { provide: APP_FILTER, useClass: AllExceptionsFilter },
      ],
    };
  }
}

class SettingsModule {}

function settings(providers: Provider[]): DynamicModule {
  return { module: SettingsModule, global: true, providers, exports: providers };
}
