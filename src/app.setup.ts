import { type INestApplicationContext, Logger } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { ApiKeysRepository } from './api-keys/api-keys.repository.js';
import { AppModule, type AppOptions } from './app.module.js';
import type { Config } from './config/config.js';
import { Metrics } from './metrics/metrics.js';
import { setUpSwaggerUi } from './openapi/swagger-ui.js';
import { ListVersions } from './orders/list/list-versions.js';
import { OrdersRepository } from './orders/orders.repository.js';
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
  await warmUp(app);
  return app;
}

/**
 * Runs the statements of requests once at start, without effect: this opens connections and checks the triggers of the list, for
 * which the first request would wait. The service starts even when the database is unreachable.
 */
async function warmUp(app: INestApplicationContext): Promise<void> {
  const keys = app.get(ApiKeysRepository).findByHash('00'.repeat(32));
  const orders = app.get(OrdersRepository).cancelUnlocked([]);
  const list = app.get(ListVersions).currentName();
  await Promise.all([keys, orders, list]).catch((error: unknown) => {
    new Logger('WarmUp').warn(`database is unreachable: ${String(error)}`);
  });
}
