/** @type {import('./run.mjs').Defect} */
export default {
  promise: 1,
  file: 'src/orders/orders.repository.ts',
  find: `FROM orders WHERE id = \${id}::bigint FOR NO KEY UPDATE \${lock}
      ) RETURNING`,
  replace: `FROM orders WHERE id = \${id}::bigint
      ) RETURNING`,
  suites: ['orders/cancel-order-races'],
};
