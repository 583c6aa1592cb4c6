/** @type {import('./run.mjs').Defect} */
export default {
  promise: 5,
  file: 'src/rate-limit/decision.ts',
  find: 'minute.used < quotas.requestsPerMinute',
  replace: 'minute.used <= quotas.requestsPerMinute',
  suites: ['requests/429'],
};
