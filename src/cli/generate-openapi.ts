import { NestFactory } from '@nestjs/core';
import { AppModule } from '../app.module.js';
import { loadConfig } from '../config/config.js';
import { ServiceHttpAdapter } from '../http/service-http-adapter.js';
import { buildOpenApiDocument } from '../openapi/openapi-document.js';

/**
 * Generates the OpenAPI document from the code. Starts nothing and needs no database.
 * @param environment `PUBLIC_BASE_URL` and `STAGING_BASE_URL` are the servers; other variables are not read
 */
export async function generateOpenApi(environment: NodeJS.ProcessEnv): Promise<object> {
  const { PUBLIC_BASE_URL, STAGING_BASE_URL } = environment;
  const config = loadConfig({ PUBLIC_BASE_URL, STAGING_BASE_URL });
  const app = await NestFactory.create(AppModule.with(config), new ServiceHttpAdapter(config), {
    preview: true,
    logger: false,
    abortOnError: false,
  });
  return buildOpenApiDocument(app, config);
}
