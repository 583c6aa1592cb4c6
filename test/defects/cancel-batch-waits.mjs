/** @type {import('./run.mjs').Defect} */
export default {
  promise: 1,
  file: 'src/orders/orders.repository.ts',
  find: 'WHERE id = ANY(${ids}::bigint[]) FOR NO KEY UPDATE SKIP LOCKED',
  replace: 'WHERE id = ANY(${ids}::bigint[]) FOR NO KEY UPDATE',
  suites: ['orders/cancel-order-races'],
};
