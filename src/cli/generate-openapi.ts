import { NestFactory } from '@nestjs/core';
import { pino } from 'pino';
import { AppModule } from '../app.module.js';
import { systemClock } from '../common/clock.js';
import { loadConfig } from '../config/load-config.js';
import { ServiceHttpAdapter } from '../server/service-http-adapter.js';
import { NO_TRACING } from '../tracing/tracing.js';
import { buildOpenApiDocument } from '../openapi/openapi-document.js';

/**
 * The OpenAPI document as JSON text, from the code alone: nothing is started, no database is needed.
 * @param variables the environment; `PUBLIC_BASE_URL` and `STAGING_BASE_URL` name the servers
 */
export async function generateOpenApi(variables: NodeJS.ProcessEnv): Promise<string> {
  const config = loadConfig({ ...variables, NODE_ENV: undefined });
  const module = AppModule.with({
    config,
    clock: systemClock,
    requestLogger: pino({ level: 'silent' }),
    tracing: NO_TRACING,
  });
  const app = await NestFactory.create(module, new ServiceHttpAdapter(), {
    preview: true,
    logger: false,
    abortOnError: false,
  });
  const document = buildOpenApiDocument(app, config);
  return `${JSON.stringify(document, null, 2)}\n`;
}
