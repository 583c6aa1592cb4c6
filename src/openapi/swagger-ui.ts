import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { NestExpressApplication } from '@nestjs/platform-express';
import type { Express, NextFunction, Request, Response } from 'express';
import { FairSlots } from '../common/fair-slots.js';
import type { Config } from '../config/config.js';
import { DomainError } from '../errors/domain-error.js';
import { abortResponse } from '../http/response.js';

const DOCS_PATH = 'docs';

/** Responses at once: each holds an open file, and a part of it until its client takes it. */
const RESPONSES_MAX = 64;
/** How long a request waits when this number is reached. Milliseconds. */
const SLOT_TIMEOUT_MS = 1_000;
/** How long a client may take for a response. Milliseconds. */
const RESPONSE_TIMEOUT_MS = 60_000;

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
 * Serves Swagger UI and the document, outside the version segment and without key or limits. Both are loaded by the first
 * request for them: few processes ever get one. Client addresses share a bounded number of responses at once.
 * @param clientAddress of a request
 * @param demoKey filled in under Authorize; everyone who can open the page can read it
 */
export function setUpSwaggerUi(
  app: NestExpressApplication,
  config: Config,
  clientAddress: { networkOf(req: IncomingMessage): string },
  demoKey?: string,
): void {
  const slots = new FairSlots(RESPONSES_MAX, {
    ms: SLOT_TIMEOUT_MS,
    error: () => new DomainError('service_unavailable', 'Too many documents are being sent; retry shortly.'),
  });
  let loading: Promise<Express> | undefined;
  const load = async (): Promise<Express> => {
    const { createSwaggerUi } = await import('./swagger-ui-page.js');
    const { buildOpenApiDocument } = await import('./openapi-document.js');
    return createSwaggerUi(DOCS_PATH, buildOpenApiDocument(app, config, { served: true }), demoKey);
  };
  app.use(`/${DOCS_PATH}`, async (req: Request, res: Response, next: NextFunction) => {
    if (!DOCS_FILES.has(req.path) || !['GET', 'HEAD'].includes(req.method)) {
      throw new DomainError('route_not_found');
    }
    res.setHeader('Content-Security-Policy', DOCS_POLICY);
    res.setHeader('X-Content-Type-Options', 'nosniff');
    res.setHeader('Referrer-Policy', 'no-referrer');
    // The page's script holds the demo key: no page of another origin may load it.
    res.setHeader('Cross-Origin-Resource-Policy', 'same-origin');
    res.setHeader('Cache-Control', 'no-cache');
    loading ??= load().catch((error: unknown) => {
      loading = undefined;
      throw error;
    });
    const swaggerUi = await loading;
    if (res.socket === null) {
      // Behind other responses of its connection.
      await once(res, 'socket');
    }
    const slot = await slots.acquire(clientAddress.networkOf(req));
    if (req.socket.destroyed) {
      slot.release();
      return;
    }
    const abort = (): void => {
      abortResponse(res);
    };
    const timer = setTimeout(abort, RESPONSE_TIMEOUT_MS);
    res.once('close', () => {
      clearTimeout(timer);
      slot.release();
    });
    slot.yieldBy(abort);
    // Express has removed the path that this handler is mounted on.
    req.url = req.originalUrl;
    swaggerUi(req, res, next);
  });
}
