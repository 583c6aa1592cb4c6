/** @type {import('./run.mjs').Defect} */
export default {
  promise: 3,
  file: 'src/orders/list/image-cache.ts',
  find: 'this.#bytesMax = list.cacheBytes;',
  replace: 'this.#bytesMax = list.cacheBytes + 2 ** 40;',
  suites: ['list/memory'],
};
