/** @type {import('./run.mjs').Defect} */
export default {
  promise: 3,
  file: 'src/orders/list/image-memory.ts',
  find: 'return this.#bytes <= this.bytesMax && !this.memory.isFull;',
  replace: 'return this.#bytes >= 0;',
  suites: ['orders/list/list-cache'],
};
