import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Where `moduleNameMapper` of Jest finds them. */
const FOLDER = join(ROOT, 'node_modules/.cache/test-packages');

const BUNDLED = [
  ...['common', 'core', 'platform-express', 'swagger', 'testing', 'throttler'].map((name) => `@nestjs/${name}`),
  '@opentelemetry/api',
  ...['express', 'ioredis', 'pg', 'prom-client'],
];

const EXTERNAL = [
  // Jest maps them to bundles of their own, or loads them before the tests.
  ...['rxjs', 'class-validator', 'class-transformer', 'reflect-metadata'],
  // Loaded only when needed, files that are read, and optional parts that are not installed.
  ...[
    'iconv-lite',
    'mime-db',
    'file-type',
    'swagger-ui-dist',
    '@nestjs/microservices*',
    '@nestjs/websockets*',
    '@fastify/static',
    'pg-native',
  ],
];

/**
 * Bundles the packages with the most modules. Every test file loads its modules anew, and reading, resolving and
 * compiling 700 small files takes longer than most test files run.
 */
export async function bundlePackages() {
  const exports = BUNDLED.map((name) => `${JSON.stringify(name)}: () => require(${JSON.stringify(name)})`);
  const { outputFiles } = await build({
    absWorkingDir: ROOT,
    stdin: { contents: `module.exports = { ${exports.join()} };`, resolveDir: ROOT },
    write: false,
    bundle: true,
    format: 'cjs',
    platform: 'node',
    target: 'node20.19',
    keepNames: true,
    minify: true,
    external: EXTERNAL,
    // The modules of Jest have neither.
    supported: { 'dynamic-import': false },
    define: { 'import.meta.url': '__url' },
    banner: { js: "const __url = require('node:url').pathToFileURL(__filename).href;" },
    logLevel: 'error',
  });
  write('bundle.cjs', outputFiles[0].text);
  for (const name of BUNDLED) {
    // Relative, because copies of the project share the folder (see test/defects/).
    const bundle = `./${'../'.repeat(name.split('/').length - 1)}bundle.cjs`;
    write(`${name}.cjs`, `module.exports = require('${bundle}')['${name}']();`);
  }
}

/** At once, because another run may be reading it. */
function write(name, text) {
  const path = join(FOLDER, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(`${path}.${process.pid}`, text);
  renameSync(`${path}.${process.pid}`, path);
}
