import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { AdmissionService } from './admission/admission.service.js';
import { ClientAddress } from './admission/client-address.js';
import { AppModule, type AppOptions } from './app.module.js';
import type { Config } from './config/config.js';
import { Metrics } from './metrics/metrics.js';
import { OrderListResponder } from './orders/list/order-list.responder.js';
import { setUpSwaggerUi } from './openapi/swagger-ui.js';
import { AllExceptionsFilter } from './server/exception.filter.js';
import { RequestObserver } from './server/request-observer.js';
import { ServiceHttpAdapter } from './server/service-http-adapter.js';

/** Assembles the application that the server runs and the tests call. The configuration must have a database URL. */
export async function createApp(config: Config, options: AppOptions = {}): Promise<NestExpressApplication> {
  const { corsOrigins, connectionsMax } = config;
  const adapter = new ServiceHttpAdapter({ corsOrigins, connectionsMax });
  const app = await NestFactory.create<NestExpressApplication>(AppModule.with(config, options), adapter, {
    bodyParser: false,
    ...(options.logger === undefined ? {} : { logger: options.logger }),
  });
  if (config.docsEnabled) {
    adapter.addLastRoutes(() => {
      setUpSwaggerUi(app, config, app.get(ClientAddress), options.demoKey);
    });
  }
  await app.init();
  app.get(Metrics).watchConnections(app.getHttpServer());
  adapter.useServices({
    admission: app.get(AdmissionService),
    observer: app.get(RequestObserver),
    errors: app.get(AllExceptionsFilter),
    list: app.get(OrderListResponder),
    tracing: options.tracing,
  });
  return app;
}
