/** @type {import('./run.mjs').Defect} */
export default {
  promise: 5,
  file: 'src/rate-limit/redis-quota-store.ts',
  find: 'RESPONSE_TIMEOUT_MS = 100;',
  replace: 'RESPONSE_TIMEOUT_MS = 5_000;',
  suites: ['outages/redis'],
};
