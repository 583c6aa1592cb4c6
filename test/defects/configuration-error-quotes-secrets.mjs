/** @type {import('./run.mjs').Defect} */
export default {
  promise: 8,
  file: 'src/config/environment.ts',
  find: '${secret === undefined ? ` (got "${text}")` : \'\'}',
  replace: ' (got "${text}")',
  suites: ['config/config'],
};
