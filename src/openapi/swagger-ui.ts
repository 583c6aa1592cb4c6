import type { NestExpressApplication } from '@nestjs/platform-express';
import { SwaggerModule } from '@nestjs/swagger';
import type { NextFunction, Request, Response } from 'express';
import type { Config } from '../config/config.js';
import { DomainError } from '../errors/domain-error.js';
import { BEARER_SCHEME, buildOpenApiDocument } from './openapi-document.js';

const DOCS_PATH = 'docs';
const DOCS_JSON_PATH = `${DOCS_PATH}/openapi.json`;

/**
 * The files of the Swagger UI page, relative to its path. The static file server would also serve the other files of the
 * package: source maps, package.json, other builds.
 */
const DOCS_FILES: ReadonlySet<string> = new Set([
  '/',
  '/openapi.json',
  '/favicon-16x16.png',
  '/favicon-32x32.png',
  '/swagger-ui.css',
  '/swagger-ui-bundle.js',
  '/swagger-ui-init.js',
  '/swagger-ui-standalone-preset.js',
]);

/**
 * Swagger UI needs inline styles and images from data URLs, and scripts of the same origin. With
 * `upgrade-insecure-requests` the page would stay blank over plain http.
 */
const DOCS_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

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

/**
 * Serves Swagger UI and the document, outside the version segment and without key or limits.
 * @param demoKey filled in under Authorize; everyone who can open the page can read it
 */
export function setUpSwaggerUi(app: NestExpressApplication, config: Config, demoKey?: string): void {
  app.use(`/${DOCS_PATH}`, (req: Request, res: Response, next: NextFunction) => {
    if (!DOCS_FILES.has(req.path)) {
      next(DomainError.of('route_not_found'));
      return;
    }
    res.setHeader('Content-Security-Policy', DOCS_POLICY);
    res.setHeader('X-Content-Type-Options', 'nosniff');
    res.setHeader('Referrer-Policy', 'no-referrer');
    // The page's script holds the demo key: no page of another origin may load it.
    res.setHeader('Cross-Origin-Resource-Policy', 'same-origin');
    res.setHeader('Cache-Control', 'no-cache');
    if (req.path === '/') {
      addViewport(res);
    }
    next();
  });
  SwaggerModule.setup(DOCS_PATH, app, () => buildOpenApiDocument(app, config, { served: true }), {
    jsonDocumentUrl: DOCS_JSON_PATH,
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
