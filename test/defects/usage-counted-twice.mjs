/** @type {import('./run.mjs').Defect} */
export default {
  promise: 8,
  file: 'src/usage/usage-recorder.ts',
  find: 'this.#rows = new Map();',
  replace: '',
  suites: ['keys/usage'],
};
