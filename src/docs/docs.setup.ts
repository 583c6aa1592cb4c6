import type { NestExpressApplication } from '@nestjs/platform-express';
import { SwaggerModule } from '@nestjs/swagger';
import type { NextFunction, Request, Response } from 'express';
import type { Config } from '../config/config.js';
import { DomainError } from '../errors/domain-error.js';
import { isDocsFile } from './docs-files.js';
import { buildOpenApiDocument } from './openapi-document.js';

export const DOCS_PATH = 'docs';
export const DOCS_JSON_PATH = `${DOCS_PATH}/openapi.json`;

/**
 * Swagger UI needs inline styles and images from data URLs, and scripts from here alone. There is no
 * `upgrade-insecure-requests`: over plain http it would leave the page blank.
 */
const DOCS_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** Serves Swagger UI and the document, outside the version segment and without key or limits. */
export function setUpDocs(app: NestExpressApplication, config: Config): void {
  app.use(`/${DOCS_PATH}`, (req: Request, res: Response, next: NextFunction) => {
    if (!isDocsFile(req.path)) {
      next(new DomainError('route_not_found', 'There is nothing at this path.'));
      return;
    }
    res.setHeader('Content-Security-Policy', DOCS_POLICY);
    res.setHeader('X-Content-Type-Options', 'nosniff');
    res.setHeader('Referrer-Policy', 'no-referrer');
    res.setHeader('Cache-Control', 'no-cache');
    next();
  });
  SwaggerModule.setup(DOCS_PATH, app, () => buildOpenApiDocument(app, config), {
    jsonDocumentUrl: DOCS_JSON_PATH,
    raw: ['json'],
    customSiteTitle: 'Pet Store: Store Orders',
    swaggerOptions: { displayRequestDuration: true, tryItOutEnabled: true, persistAuthorization: false },
  });
}
