/** @type {import('./run.mjs').Defect} */
export default {
  promise: 3,
  file: 'src/orders/list/order-list.responder.ts',
  find: 'STREAMS_SHARE = 1 / 4;',
  replace: 'STREAMS_SHARE = 1;',
  suites: ['list/503'],
};
