/** @type {import('./run.mjs').Defect} */
export default {
  promise: 4,
  file: 'src/api-keys/api-keys.service.ts',
  find: 'Math.abs(nowMs - readAtMs) < this.#cacheMs',
  replace: 'readAtMs - nowMs < this.#cacheMs',
  suites: ['keys/taking-effect'],
};
