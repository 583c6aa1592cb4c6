import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import type { NextFunction, Request, Response } from 'express';
import { LRUCache } from 'lru-cache';
import type { Config } from '../config/config.js';
import { API_VERSION, DOCS_PATH, pathOf } from '../http/paths.js';
import { setDefaultHeaders } from '../http/response.js';
import { BEARER_SCHEME } from './api-description.js';
import { buildOpenApiDocument } from './openapi-document.js';

const { resolve } = createRequire(import.meta.url);

/** Static files of our own; beside the bundle in production. */
const BROWSER_FOLDER = fileURLToPath(new URL('browser/', import.meta.url));

/** What the page refers to of `swagger-ui-dist`. */
const SWAGGER_UI_FILES = [
  ...['swagger-ui.css', 'swagger-ui-bundle.js', 'swagger-ui-standalone-preset.js'],
  ...['favicon-16x16.png', 'favicon-32x32.png'],
];

const HEADERS = {
  // Swagger UI needs inline styles and images from data URLs. With `upgrade-insecure-requests` it would stay blank over plain http.
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'Referrer-Policy': 'no-referrer',
  // A script of the page holds the demo key: no page of another origin may load it.
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-cache',
};

/** "Cancel" of Swagger UI ends the input of parameters, and could be mistaken for the cancel of an order; no response has links. */
const CSS = '.swagger-ui :is(.try-out, .response-col_links) { display: none }';

/**
 * Serves Swagger UI and the document, outside the version segment and without key or limits.
 * @param demoKey filled in under Authorize; everyone who can open the page can read it
 */
export function setUpSwaggerUi(app: NestExpressApplication, config: Config, demoKey?: string): void {
  app.use(DOCS_PATH, (req: Request, res: Response, next: NextFunction) => {
    res.set(HEADERS);
    // `fetch` adds `no-cache` to a conditional request, and Express would take it for a request to send everything again.
    delete req.headers['cache-control'];
    if ([`${DOCS_PATH}/`, `${DOCS_PATH}/index.html`].includes(pathOf(req.originalUrl))) {
      // One address, because the page refers to its files by relative paths.
      res.redirect(`..${DOCS_PATH}`);
    } else {
      next();
    }
  });
  serveSwaggerUiFiles(app);
  SwaggerModule.setup(DOCS_PATH, app, () => buildOpenApiDocument(app, config), {
    raw: ['json'],
    jsonDocumentUrl: `${DOCS_PATH}/openapi.json`,
    patchDocumentOnRequest: (req, _res, document) =>
      config.publicBaseUrl === undefined ? withThisServer(document, req as Request) : document,
    customSwaggerUiPath: BROWSER_FOLDER,
    customJs: `.${DOCS_PATH}/orders.js`,
    customCss: CSS,
    customSiteTitle: 'Pet Store: Store Orders',
    swaggerOptions: {
      layout: 'BaseLayout',
      displayRequestDuration: true,
      tryItOutEnabled: true,
      ...(demoKey !== undefined && {
        authAction: {
          [BEARER_SCHEME]: { name: BEARER_SCHEME, schema: { type: 'http', scheme: 'bearer' }, value: demoKey },
        },
      }),
    },
  });
  // What has found nothing here ends in an error, whose headers are those of all others.
  app.use(DOCS_PATH, (_req: Request, res: Response, next: NextFunction) => {
    setDefaultHeaders(res);
    next();
  });
}

/** Not by `express.static`, which keeps the file of a pipelined response open for ever when its connection is lost before its turn. */
function serveSwaggerUiFiles(app: NestExpressApplication): void {
  const files = new LRUCache({ max: SWAGGER_UI_FILES.length, fetchMethod: readAndCompress });
  app.use(DOCS_PATH, async (req: Request, res: Response, next: NextFunction) => {
    const name = req.path.slice(1);
    if (!SWAGGER_UI_FILES.includes(name)) {
      next();
      return;
    }
    const { identity, gzip } = await files.forceFetch(name);
    res.type(name).vary('Accept-Encoding');
    if (req.acceptsEncodings('gzip', 'identity') === 'gzip') {
      res.set('Content-Encoding', 'gzip').send(gzip);
    } else {
      res.send(identity);
    }
  });
}

async function readAndCompress(name: string): Promise<{ identity: Buffer; gzip: Buffer }> {
  const identity = await readFile(resolve(`swagger-ui-dist/${name}`));
  return { identity, gzip: await promisify(gzip)(identity) };
}

/** Names the address that the client has used first: clients take the first server for the base URL. */
function withThisServer(document: OpenAPIObject, req: Request): OpenAPIObject {
  if (req.headers.host === undefined) {
    return document;
  }
  const url = `${req.protocol}://${req.host}/${API_VERSION}`;
  return { ...document, servers: [{ url, description: 'This server' }, ...(document.servers ?? [])] };
}
