import { project, run } from '../../jest.config.js';

/** @type {import('jest').Config} */
export default {
  ...run,
  ...project,
  rootDir: '../..',
  testMatch: ['<rootDir>/test/weekly/*.test.ts'],
};
