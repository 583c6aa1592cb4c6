/** @type {import('./run.mjs').Defect} */
export default {
  promise: 5,
  file: 'src/rate-limit/redis-quota-store.ts',
  find: '    this.#failures = 0;\n    if (this.degraded) {\n',
  replace: '    if (this.degraded) {\n      this.#failures = 0;\n',
  suites: ['outages/redis'],
};
