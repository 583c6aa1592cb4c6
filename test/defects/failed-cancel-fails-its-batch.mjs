/** @type {import('./run.mjs').Defect} */
export default {
  promise: 1,
  file: 'src/orders/cancel-batcher.ts',
  find: 'if (ids.length === 1 || !isStatementFailure(',
  replace: 'if (ids.length > 0 || !isStatementFailure(',
  suites: ['races/cancels'],
};
