import type { NestExpressApplication } from '@nestjs/platform-express';
import type { Request, Response } from 'express';
import type { Config } from '../config/config.js';
import { DomainError } from '../errors/domain-error.js';
import { DOCS_PATH, pathOf } from '../http/paths.js';
import type { DocsFile } from './swagger-ui-page.js';

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
    // Express sends 304 to a client that has it.
    res.set(file.headers).send(file.content);
  });
}
