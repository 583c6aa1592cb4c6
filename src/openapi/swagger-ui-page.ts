import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter, type NestExpressApplication } from '@nestjs/platform-express';
import { type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import { BEARER_SCHEME } from './api-description.js';

/** Hides the bar for other documents and the column of links, which no response has. */
const DOCS_STYLE = '.swagger-ui .topbar, .swagger-ui .response-col_links { display: none }';

/** What Swagger UI generates, relative to its path. The page exists twice, because it refers to the others by relative paths. */
const GENERATED = {
  '': 'text/html; charset=utf-8',
  '/': 'text/html; charset=utf-8',
  '/openapi.json': 'application/json; charset=utf-8',
  '/swagger-ui-init.js': 'text/javascript; charset=utf-8',
} as const;

/** The static files of the page. The package has others: source maps, package.json, other builds. */
const STATIC = {
  '/favicon-16x16.png': 'image/png',
  '/favicon-32x32.png': 'image/png',
  '/swagger-ui.css': 'text/css; charset=utf-8',
  '/swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
  '/swagger-ui-standalone-preset.js': 'text/javascript; charset=utf-8',
} as const;

/** A file in memory. */
export interface DocsFile {
  readonly type: string;
  readonly etag: string;
  readonly content: Buffer;
}

/** How `SwaggerModule` responds with a text that it has generated. */
type Generate = (
  req: { originalUrl: string },
  res: { type(type: string): void; send(text: string): void },
) => void | Promise<void>;

/** Collects what `SwaggerModule` would have a server serve. */
class DocsCollector extends ExpressAdapter {
  folder = '';
  readonly #generators = new Map<unknown, Generate>();

  override get(path: unknown, generate?: unknown): void {
    this.#generators.set(path, generate as Generate);
  }

  override useStaticAssets(folder: string): void {
    this.folder = folder;
  }

  async generate(path: string): Promise<Buffer> {
    let generated: string | undefined;
    const send = (text: string): void => {
      generated = text;
    };
    await this.#generators.get(path)?.({ originalUrl: path }, { type: () => undefined, send });
    if (generated === undefined) {
      throw new Error(`Swagger UI does not generate ${path}`);
    }
    return Buffer.from(generated);
  }
}

@Module({})
class SwaggerUiModule {}

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
  const collector = new DocsCollector();
  const app = await NestFactory.create<NestExpressApplication>(SwaggerUiModule, collector);
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
  const files = new Map<string, DocsFile>();
  for (const [name, type] of Object.entries(GENERATED)) {
    files.set(path + name, fileOf(type, await collector.generate(path + name)));
  }
  for (const [name, type] of Object.entries(STATIC)) {
    files.set(path + name, fileOf(type, await readFile(join(collector.folder, name))));
  }
  return files;
}

function fileOf(type: string, content: Buffer): DocsFile {
  return { type, etag: `"${createHash('sha256').update(content).digest('base64url')}"`, content };
}

/** The state of Swagger UI after a key has been entered under Authorize. */
function authorizedWith(key: string): object {
  const schema = { type: 'http', scheme: 'bearer' };
  return { [BEARER_SCHEME]: { name: BEARER_SCHEME, schema, value: key } };
}
