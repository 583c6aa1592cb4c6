/** @type {import('./run.mjs').Defect} */
export default {
  promise: 1,
  file: 'src/orders/cancel-batcher.ts',
  find: "return isRepeat && result === 'cancelled' ? 'already_cancelled' : result;",
  replace: "return isRepeat && result === 'cancelled' ? 'cancelled' : result;",
  suites: ['races/cancels'],
};
