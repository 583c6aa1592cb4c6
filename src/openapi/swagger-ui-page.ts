import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { OpenAPIObject } from '@nestjs/swagger';
import { PLAN_QUOTAS } from '../plans/plans.js';
import { BEARER_SCHEME } from './api-description.js';
import { type PageData, startSwaggerUi } from './swagger-ui-script.js';

const { resolve } = createRequire(import.meta.url);

/** What is served of the package `swagger-ui-dist`, which has others: source maps, package.json, other builds. */
const STATIC = {
  'favicon-32x32.png': 'image/png',
  'swagger-ui.css': 'text/css; charset=utf-8',
  'swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
} as const;

/** How to try the operations: the first sentence of the page. */
const ENTER_KEY = 'To try the operations on this page, press **Authorize** and paste your key without "Bearer".';
const DEMO_KEY =
  '**This page is authorized** with the Free key of the demo: open an operation and press **Execute**. Its limit is ' +
  `${PLAN_QUOTAS.free.requestsPerMinute} requests per minute.`;

const HEADERS = {
  // Swagger UI needs inline styles and images from data URLs, and scripts of the same origin. With `upgrade-insecure-requests` the page
  // would stay blank over plain http.
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  // The page's script holds the demo key: no page of another origin may load it.
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-cache',
};

/** A file in memory. */
export interface DocsFile {
  readonly headers: Readonly<Record<string, string>>;
  readonly content: Buffer;
}

/**
 * Loads the files of Swagger UI into memory, so that a response takes neither an open file nor a copy.
 * @param path without a slash at the end
 * @param demoKey filled in under Authorize
 * @returns the files by their paths
 */
export async function loadSwaggerUi(
  path: string,
  document: OpenAPIObject,
  demoKey?: string,
): Promise<ReadonlyMap<string, DocsFile>> {
  const folder = path.slice(path.lastIndexOf('/') + 1);
  const files = new Map([
    // Twice, because it refers to the others by relative paths.
    [path, fileOf('text/html; charset=utf-8', page(`./${folder}/`))],
    [`${path}/`, fileOf('text/html; charset=utf-8', page('./'))],
    [`${path}/openapi.json`, fileOf('application/json; charset=utf-8', JSON.stringify(document))],
    [`${path}/swagger-ui-init.js`, fileOf('text/javascript; charset=utf-8', script(document, demoKey))],
  ]);
  for (const [name, type] of Object.entries(STATIC)) {
    files.set(`${path}/${name}`, fileOf(type, await readFile(resolve(`swagger-ui-dist/${name}`))));
  }
  return files;
}

function fileOf(type: string, content: string | Buffer): DocsFile {
  const etag = `"${createHash('sha256').update(content).digest('base64url')}"`;
  return { headers: { ...HEADERS, 'Content-Type': type, ETag: etag }, content: Buffer.from(content) };
}

/** As the package's own page; without the column of links, which no response has. */
function page(base: string): string {
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <title>Pet Store: Store Orders</title>
    <link rel="icon" type="image/png" href="${base}favicon-32x32.png" />
    <link rel="stylesheet" href="${base}swagger-ui.css" />
    <style>
      body { margin: 0; background: #fafafa; }
      .swagger-ui .response-col_links { display: none; }
    </style>
  </head>
  <body>
    <div id="swagger-ui"></div>
    <script src="${base}swagger-ui-bundle.js"></script>
    <script src="${base}swagger-ui-init.js"></script>
  </body>
</html>
`;
}

function script(document: OpenAPIObject, demoKey: string | undefined): string {
  const description = `${demoKey === undefined ? ENTER_KEY : DEMO_KEY}\n\n${document.info.description ?? ''}`;
  const data: PageData = {
    spec: { ...document, info: { ...document.info, description } },
    commonHeaders: commonHeadersOf(document),
    scheme: BEARER_SCHEME,
    demoKey,
  };
  return `(${startSwaggerUi.toString()})(SwaggerUIBundle, document.currentScript.src, ${JSON.stringify(data)});\n`;
}

/** The headers that every response of every operation has. */
function commonHeadersOf({ paths }: OpenAPIObject): string[] {
  const responses = Object.values(paths)
    .flatMap(({ get, delete: cancel }) => [get, cancel])
    .flatMap((operation) => Object.values(operation?.responses ?? {}))
    .map((response) => Object.keys(response && 'headers' in response ? (response.headers ?? {}) : {}));
  return (responses[0] ?? []).filter((name) => responses.every((names) => names.includes(name)));
}
