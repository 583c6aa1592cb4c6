import type { NestExpressApplication } from '@nestjs/platform-express';
import type { Request, Response } from 'express';
import type { Config } from '../config/config.js';
import { DomainError } from '../errors/domain-error.js';
import { pathOf } from '../http/paths.js';
import type { DocsFile } from './swagger-ui-page.js';

const DOCS_PATH = '/docs';

/**
 * Swagger UI needs inline styles and images from data URLs, and scripts of the same origin. With
 * `upgrade-insecure-requests` the page would stay blank over plain http.
 */
const DOCS_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/**
 * Serves Swagger UI and the document, outside the version segment and without key or limits. Both are loaded by the first
 * request for them: few processes ever get one.
 * @param demoKey filled in under Authorize; everyone who can open the page can read it
 */
export function setUpSwaggerUi(app: NestExpressApplication, config: Config, demoKey?: string): void {
  let loading: Promise<ReadonlyMap<string, DocsFile>> | undefined;
  const load = async (): Promise<ReadonlyMap<string, DocsFile>> => {
    const { loadSwaggerUi } = await import('./swagger-ui-page.js');
    const { buildOpenApiDocument } = await import('./openapi-document.js');
    return loadSwaggerUi(DOCS_PATH, buildOpenApiDocument(app, config, { served: true }), demoKey);
  };
  app.use(DOCS_PATH, async (req: Request, res: Response) => {
    loading ??= load().catch((error: unknown) => {
      loading = undefined;
      throw error;
    });
    const file = (await loading).get(pathOf(req.originalUrl));
    if (file === undefined || !['GET', 'HEAD'].includes(req.method)) {
      throw new DomainError('route_not_found');
    }
    res.setHeader('Content-Security-Policy', DOCS_POLICY);
    res.setHeader('X-Content-Type-Options', 'nosniff');
    res.setHeader('Referrer-Policy', 'no-referrer');
    // The page's script holds the demo key: no page of another origin may load it.
    res.setHeader('Cross-Origin-Resource-Policy', 'same-origin');
    res.setHeader('Cache-Control', 'no-cache');
    res.setHeader('Content-Type', file.type);
    res.setHeader('ETag', file.etag);
    // Express sends 304 to a client that has it.
    res.send(file.content);
  });
}
