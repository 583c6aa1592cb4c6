/** @type {import('./run.mjs').Defect} */
export default {
  promise: 3,
  file: 'src/orders/list/image-cache.ts',
  find: 'shareNextRun(() => this.#build());',
  replace: '() => shareNextRun(() => this.#build())();',
  suites: ['list/memory'],
};
