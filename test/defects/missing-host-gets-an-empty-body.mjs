/** @type {import('./run.mjs').Defect} */
export default {
  promise: 6,
  file: 'src/http/service-http-adapter.ts',
  find: '  // Node would respond to a request without Host, which nothing here reads, with an empty body.\n  requireHostHeader: false,\n',
  replace: '',
  suites: ['requests/connections'],
};
