/** @type {import('./run.mjs').Defect} */
export default {
  promise: 5,
  file: 'src/rate-limit/redis-script.ts',
  find: 'minuteUsed < perMinute and dayUsed < perDay',
  replace: 'minuteUsed < perMinute',
  suites: ['models/limits'],
};
