/** @type {import('./run.mjs').Defect} */
export default {
  promise: 1,
  file: 'src/orders/orders.repository.ts',
  find: 'SELECT id, status FROM orders WHERE id = ANY(${ids}::bigint[]) FOR NO KEY UPDATE ${lock}',
  replace:
    'SELECT id, status FROM orders WHERE id = ANY(${ids}::bigint[]) ${lock === SKIP_LOCKED ? Prisma.empty : lock}',
  suites: ['races/cancels'],
};
