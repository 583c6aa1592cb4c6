/** @type {import('./run.mjs').Defect} */
export default {
  promise: 5,
  file: 'src/rate-limit/redis-script.ts',
  find: 'math.max(dayEnd * 1000, windowStart + banWindow, bannedUntil)',
  replace: 'math.max(dayEnd * 1000, windowStart + banWindow)',
  suites: ['models/limits'],
};
