/** @type {import('./run.mjs').Defect} */
export default {
  promise: 5,
  file: 'src/rate-limit/decision.ts',
  find: 'withRejection(current, rule, nowMs)',
  replace: 'withRejection({ ...current, day: { ...day, used: day.used + 1 } }, rule, nowMs)',
  suites: ['requests/429'],
};
