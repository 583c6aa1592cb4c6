/** @type {import('./run.mjs').Defect} */
export default {
  promise: 2,
  file: 'src/orders/list/list-version.ts',
  find: 'name: `${catalogue}-${wrapped(tokens)}-${REPRESENTATION}`',
  replace: 'name: `${wrapped(tokens)}-${REPRESENTATION}`',
  suites: ['list/stale-never'],
};
