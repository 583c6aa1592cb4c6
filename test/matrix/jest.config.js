import base from '../../jest.config.js';

/** @type {import('jest').Config} */
export default {
  ...base,
  rootDir: '../..',
  testMatch: ['<rootDir>/test/matrix/*.test.ts'],
};
