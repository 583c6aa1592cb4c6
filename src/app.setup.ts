import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { AppModule, type AppOptions } from './app.module.js';
import type { Config } from './config/config.js';
import { Metrics } from './metrics/metrics.js';
import { setUpSwaggerUi } from './openapi/swagger-ui.js';
import { ServiceHttpAdapter } from './server/service-http-adapter.js';

/** Assembles the application that the server runs and the tests call. The configuration must have a database URL. */
export async function createApp(config: Config, options: AppOptions = {}): Promise<NestExpressApplication> {
  const adapter = new ServiceHttpAdapter(config.connectionsMax);
  const app = await NestFactory.create<NestExpressApplication>(AppModule.with(config, options), adapter, {
    bodyParser: false,
    ...(options.logger === undefined ? {} : { logger: options.logger }),
  });
  if (config.docsEnabled) {
    setUpSwaggerUi(app, config, options.demoKey);
  }
  app.get(Metrics).watchConnections(adapter.getHttpServer());
  await app.init();
  return app;
}
