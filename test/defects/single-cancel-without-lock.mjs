/** @type {import('./run.mjs').Defect} */
export default {
  promise: 1,
  file: 'src/orders/orders.repository.ts',
  find: 'FROM orders WHERE id = ${id}::bigint FOR NO KEY UPDATE ${lock}',
  replace: 'FROM orders WHERE id = ${id}::bigint ${lock === SKIP_LOCKED ? Prisma.empty : lock}',
  suites: ['cancel/503-locked'],
};
