import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter, type NestExpressApplication } from '@nestjs/platform-express';
import { type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import express, { type Express, type Response } from 'express';
import { BEARER_SCHEME } from './api-description.js';

/**
 * Hides the bar for other documents and the column of links, which no response has. On a phone, wide tables and long
 * lines scroll on their own, and the description of a response stands below its status.
 */
const DOCS_STYLE = `
  .swagger-ui .topbar, .swagger-ui .response-col_links { display: none }
  @media (max-width: 640px) {
    .swagger-ui { overflow-x: clip }
    .swagger-ui .wrapper { padding: 0 10px }
    .swagger-ui .info { overflow-wrap: anywhere }
    .swagger-ui .info .renderedMarkdown, .swagger-ui .opblock-body, .swagger-ui .models { overflow-x: auto }
    .swagger-ui .parameters-col_description input, .swagger-ui .servers select { min-width: 0; max-width: 100% }
    .swagger-ui .responses-table > thead { display: none }
    .swagger-ui .responses-table, .swagger-ui .responses-table > tbody { display: block }
    .swagger-ui tr.response, .swagger-ui tr.response > td:not(.response-col_links) { display: block; width: auto; padding: 4px 0 }
    .swagger-ui tr.response > .response-col_status { font-weight: bold }
    .swagger-ui .response-controls { flex-wrap: wrap }
    .swagger-ui .response-control-media-type select { min-width: 160px }
    .swagger-ui .response .headers td { padding: 4px 6px 4px 0 }
  }`;

const VIEWPORT = '<meta name="viewport" content="width=device-width, initial-scale=1">';

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
  server.get([`/${path}`, `/${path}/`], (_req, res, next) => {
    addViewport(res);
    next();
  });
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

/** The page of `@nestjs/swagger` has no viewport element, so a phone would lay it out as wide as a desktop window. */
function addViewport(res: Response): void {
  const send = res.send.bind(res);
  res.send = (page: string) => send(page.replace('<head>', `<head>\n  ${VIEWPORT}`));
}

/** The state of Swagger UI after a key has been entered under Authorize. */
function authorizedWith(key: string): object {
  const schema = { type: 'http', scheme: 'bearer' };
  return { [BEARER_SCHEME]: { name: BEARER_SCHEME, schema, value: key } };
}
