/** @type {import('./run.mjs').Defect} */
export default {
  promise: 1,
  file: 'src/orders/orders.repository.ts',
  find: ': this.#cancelAll(ids, SKIP_LOCKED);',
  replace: ': this.#cancelAll(ids, Prisma.empty);',
  suites: ['races/cancels'],
};
