import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter, type NestExpressApplication } from '@nestjs/platform-express';
import { type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import express, { type Express } from 'express';
import { BEARER_SCHEME } from './api-description.js';

/** Hides the bar for other documents and the column of links, which no response has. */
const DOCS_STYLE = '.swagger-ui .topbar, .swagger-ui .response-col_links { display: none }';

@Module({})
class SwaggerUiModule {}

/**
 * Swagger UI as an application of its own, so that it can be added while the service runs. It has no handler for errors and
 * unknown paths: those reach the `next` of the request.
 * @param path without slashes
 * @param demoKey filled in under Authorize
 */
export async function createSwaggerUi(path: string, document: OpenAPIObject, demoKey?: string): Promise<Express> {
  const server = express().disable('x-powered-by');
  const app = await NestFactory.create<NestExpressApplication>(SwaggerUiModule, new ExpressAdapter(server));
  SwaggerModule.setup(path, app, document, {
    jsonDocumentUrl: `${path}/openapi.json`,
    raw: ['json'],
    customCss: DOCS_STYLE,
    customSiteTitle: 'Pet Store: Store Orders',
    swaggerOptions: {
      displayRequestDuration: true,
      tryItOutEnabled: true,
      persistAuthorization: false,
      ...(demoKey === undefined ? {} : { authAction: authorizedWith(demoKey) }),
    },
  });
  return server;
}

/** The state of Swagger UI after a key has been entered under Authorize. */
function authorizedWith(key: string): object {
  const schema = { type: 'http', scheme: 'bearer' };
  return { [BEARER_SCHEME]: { name: BEARER_SCHEME, schema, value: key } };
}
