/** @type {import('./run.mjs').Defect} */
export default {
  promise: 7,
  file: 'src/health/health.service.ts',
  find: 'this.#draining = true;',
  replace: 'this.#draining = false;',
  suites: ['outages/stop'],
};
