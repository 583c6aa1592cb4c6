/** @type {import('./run.mjs').Defect} */
export default {
  promise: 1,
  file: 'src/orders/cancel-batcher.ts',
  find: 'WAITING_CALLER_MAX = 2;',
  replace: 'WAITING_CALLER_MAX = 3;',
  suites: ['cancel/503-locked'],
};
