/** @type {import('./run.mjs').Defect} */
export default {
  promise: 5,
  file: 'src/rate-limit/headers.ts',
  find: 'Math.ceil((unixSeconds * 1_000 - nowMs) / 1_000)',
  replace: 'Math.round((unixSeconds * 1_000 - nowMs) / 1_000)',
  suites: ['pure/rate-limit-headers'],
};
