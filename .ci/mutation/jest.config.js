import { fileURLToPath } from 'node:url';
import base from '../../jest.config.js';

const config = { ...base };
// `run.mjs` runs the global setup once; Jest would run it for every mutant.
delete config.globalSetup;
delete config.globalTeardown;

/** @type {import('jest').Config} */
export default {
  ...config,
  // Stryker does not pass on the folder of this file.
  rootDir: fileURLToPath(new URL('../..', import.meta.url)),
  testMatch: ['<rootDir>/test/unit/**/*.test.ts', '<rootDir>/test/orders/import/import-orders.test.ts'],
  maxWorkers: 1,
  // A mutant that lets a promise hang fails its test; Stryker's own limit would end the process and start another one.
  testTimeout: Number(process.env.TEST_TIMEOUT_MS),
};
