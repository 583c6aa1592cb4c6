/** @type {import('./run.mjs').Defect} */
export default {
  promise: 8,
  file: 'src/http/request-observer.ts',
  find: 'http_route: route ?? UNMATCHED_ROUTE,',
  replace: 'http_route: route ?? req.originalUrl,',
  suites: ['requests/observability'],
};
