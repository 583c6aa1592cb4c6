/** @type {import('./run.mjs').Defect} */
export default {
  promise: 3,
  file: 'src/orders/list/order-list.responder.ts',
  find: 'STREAM_MAX_MS = 60_000;',
  replace: 'STREAM_MAX_MS = 600_000;',
  suites: ['list/interrupted'],
};
