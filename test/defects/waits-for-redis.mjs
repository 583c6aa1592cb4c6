/** @type {import('./run.mjs').Defect} */
export default {
  promise: 5,
  file: 'src/rate-limit/redis-circuit-breaker.ts',
  find: 'COMMAND_TIMEOUT_MS = 100;',
  replace: 'COMMAND_TIMEOUT_MS = 5_000;',
  suites: ['replicas/shared-limits'],
};
