/** @type {import('./run.mjs').Defect} */
export default {
  promise: 6,
  file: 'src/database/postgres-errors.ts',
  find: "'53', '57', '58'",
  replace: "'53', '58'",
  suites: ['requests/500-503'],
};
