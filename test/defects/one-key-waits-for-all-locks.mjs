/** @type {import('./run.mjs').Defect} */
export default {
  promise: 1,
  file: 'src/orders/cancel-batcher.ts',
  find: 'ownerMax: WAITING_CALLER_MAX,',
  replace: 'ownerMax: WAITING_MAX,',
  suites: ['cancel/503-locked'],
};
