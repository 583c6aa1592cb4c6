import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import type { LoggerService } from '@nestjs/common';
import { type Logger, pino } from 'pino';
import { AppModule } from './app.module.js';
import { type Clock, systemClock } from './common/clock.js';
import type { Config } from './config/config.js';
import { RequestObserver } from './server/request-observer.js';
import { ServiceHttpAdapter } from './server/service-http-adapter.js';
import { setUpSwaggerUi } from './openapi/swagger-ui.js';
import { Metrics } from './metrics/metrics.js';
import { AdmissionService } from './admission/admission.service.js';
import { NO_TRACING, type Tracing } from './tracing/tracing.js';

export interface AppOptions {
  readonly clock?: Clock;
  readonly logger?: LoggerService | false;
  /** Gets one line a request; none by default. */
  readonly requestLogger?: Logger;
  /** Where spans go; nowhere by default. */
  readonly tracing?: Tracing | undefined;
  /** False leaves every refusal to the guards, which hold without the gate. */
  readonly gate?: boolean;
  /** A key of demo data that Swagger UI comes with. */
  readonly demoKey?: string | undefined;
}

/** Assembles the application that the server runs and the tests call. The database URL must be known. */
export async function createApp(config: Config, options: AppOptions = {}): Promise<NestExpressApplication> {
  const { corsOrigins, connectionsMax } = config;
  const adapter = new ServiceHttpAdapter({ corsOrigins, connectionsMax, tracing: options.tracing });
  const app = await NestFactory.create<NestExpressApplication>(
    AppModule.with({
      config,
      clock: options.clock ?? systemClock,
      requestLogger: options.requestLogger ?? pino({ level: 'silent' }),
      tracing: options.tracing ?? NO_TRACING,
    }),
    adapter,
    { bodyParser: false, ...(options.logger === undefined ? {} : { logger: options.logger }) },
  );
  if (config.docsEnabled) {
    adapter.addLastRoutes(() => {
      setUpSwaggerUi(app, config, options.demoKey);
    });
  }
  await app.init();
  app.get(Metrics).watchConnections(app.getHttpServer());
  adapter.useObserver(app.get(RequestObserver));
  adapter.useAdmission(app.get(AdmissionService), { gate: options.gate ?? true });
  return app;
}
