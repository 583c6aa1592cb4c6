/** @type {import('./run.mjs').Defect} */
export default {
  promise: 2,
  file: 'src/orders/list/list-snapshot.ts',
  find: 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY',
  replace: 'BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY',
  suites: ['list/stale-never'],
};
