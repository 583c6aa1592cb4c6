/** @type {import('./run.mjs').Defect} */
export default {
  promise: 2,
  file: 'src/orders/list/list-images.ts',
  find: 'transaction.orders(encoder, from, pieces[index + 1]?.block)',
  replace: 'transaction.orders(encoder, from, pieces[index + 2]?.block)',
  suites: ['orders/list/list-cache'],
};
