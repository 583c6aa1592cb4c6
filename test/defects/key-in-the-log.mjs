/** @type {import('./run.mjs').Defect} */
export default {
  promise: 4,
  file: 'src/http/loggable-path.ts',
  find: String.raw`/^[^%\\]*?pst_\w{0,6}|^[^%\\]*/i`,
  replace: String.raw`/^[^%\\]*/i`,
  suites: ['server/observability'],
};
