/** @type {import('./run.mjs').Defect} */
export default {
  promise: 4,
  file: 'src/api-keys/api-keys.service.ts',
  find: 'Math.abs(this.clock.now() - readAtMs) < this.#cacheMs',
  replace: 'readAtMs > -Infinity && this.#cacheMs > 0',
  suites: ['api-keys/taking-effect'],
};
