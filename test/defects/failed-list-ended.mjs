/** @type {import('./run.mjs').Defect} */
export default {
  promise: 2,
  file: 'src/all-exceptions.filter.ts',
  find: `if (res.headersSent) {
        abortResponse(res);`,
  replace: `if (res.headersSent) {
        res.end();`,
  suites: ['orders/list-orders-failures'],
};
