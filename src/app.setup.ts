import type { DynamicModule, NestApplicationOptions } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import type { Request } from 'express';
import { AppModule, type AppOptions } from './app.module.js';
import type { Config } from './config/config.js';
import { corsOptionsOf } from './http/cors.js';
import { respondToParserErrors } from './http/parser-errors.js';
import { isApiPath } from './http/paths.js';
import { REQUEST_ID_HEADER } from './http/request.js';
import { RequestObserver } from './http/request-observer.js';
import { ServiceHttpAdapter } from './http/service-http-adapter.js';
import { Metrics } from './metrics/metrics.js';
import { setUpSwaggerUi } from './openapi/swagger-ui.js';
import { REJECTION_HEADER_NAMES } from './rate-limit/headers.js';
import { RateLimiter } from './rate-limit/rate-limiter.js';

/** What a page may read besides the body. */
const EXPOSED_HEADERS = [...REJECTION_HEADER_NAMES, 'ETag', REQUEST_ID_HEADER, 'WWW-Authenticate'];

/** Creates an application of a module, as Nest does; tests replace providers. */
export type CreateFromModule = (
  module: DynamicModule,
  adapter: ServiceHttpAdapter,
  options: NestApplicationOptions,
) => Promise<NestExpressApplication>;

/** Assembles the application that the server runs and the tests call. The configuration must have a database URL. */
export async function createApp(
  config: Config,
  options: AppOptions = {},
  createFrom: CreateFromModule = (...args) => NestFactory.create<NestExpressApplication>(...args),
): Promise<NestExpressApplication> {
  const adapter = new ServiceHttpAdapter(config);
  const app = await createFrom(AppModule.with(config, options), adapter, {
    bodyParser: false,
    // The controller of all other paths under /v1 comes last.
    routeResolutionStrategy: 'specificity',
    ...(options.logger === undefined ? {} : { logger: options.logger }),
  });
  // Entries of `X-Forwarded-For` before the client's address were sent by the client, and are ignored.
  app.set('trust proxy', config.trustProxy ?? false);
  const observer = app.get(RequestObserver);
  const limiter = app.get(RateLimiter);
  app.use(observer.observe);
  // A preflight gets its response before the guards, which set these headers; the filter of errors does so for all others.
  const onPreflight = ({ path, res }: Request): void => {
    if (res !== undefined && isApiPath(path)) {
      limiter.setFullQuotaHeaders(res);
    }
  };
  app.enableCors(corsOptionsOf(config.corsOrigins, EXPOSED_HEADERS, onPreflight));
  if (config.docsEnabled) {
    setUpSwaggerUi(app, config, options.demoKey);
  }
  const server = adapter.getHttpServer();
  server.on('clientError', respondToParserErrors(adapter.connections, observer));
  app.get(Metrics).watchConnections(server);
  await app.init();
  return app;
}
