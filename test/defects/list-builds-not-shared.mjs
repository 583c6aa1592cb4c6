/** @type {import('./run.mjs').Defect} */
export default {
  promise: 3,
  file: 'src/orders/list/list-images.ts',
  find: 'coalesce(() => this.#build());',
  replace: '() => coalesce(() => this.#build())();',
  suites: ['list/memory'],
};
