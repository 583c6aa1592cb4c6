/** @type {import('./run.mjs').Defect} */
export default {
  promise: 5,
  file: 'src/all-exceptions.filter.ts',
  find: 'if (isApiPath(req.path) && !res',
  replace: 'if (!isApiPath(req.path) && !res',
  suites: ['requests/500-503'],
};
