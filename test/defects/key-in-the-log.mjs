/** @type {import('./run.mjs').Defect} */
export default {
  promise: 4,
  file: 'src/http/request-observer.ts',
  find: String.raw`/^(?:(?!pst_)[\w./~-]){0,200}/i`,
  replace: String.raw`/^[\w./~-]{0,200}/i`,
  suites: ['requests/observability'],
};
