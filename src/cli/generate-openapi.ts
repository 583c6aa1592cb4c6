import { NestFactory } from '@nestjs/core';
import { AppModule } from '../app.module.js';
import { loadConfig } from '../config/load-config.js';
import { ServiceHttpAdapter } from '../server/service-http-adapter.js';
import { buildOpenApiDocument } from '../openapi/openapi-document.js';

/**
 * The OpenAPI document as JSON text, from the code alone: nothing is started, no database is needed.
 * @param variables the environment; `PUBLIC_BASE_URL` and `STAGING_BASE_URL` name the servers
 */
export async function generateOpenApi(variables: NodeJS.ProcessEnv): Promise<string> {
  const config = loadConfig({ ...variables, NODE_ENV: undefined });
  const app = await NestFactory.create(AppModule.with(config), new ServiceHttpAdapter(), {
    preview: true,
    logger: false,
    abortOnError: false,
  });
  const document = buildOpenApiDocument(app, config);
  return `${JSON.stringify(document, null, 2)}\n`;
}
