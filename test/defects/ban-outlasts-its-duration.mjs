/** @type {import('./run.mjs').Defect} */
export default {
  promise: 5,
  file: 'src/rate-limit/decision.ts',
  find: 'Math.min(counts.bannedUntilMs, nowMs + rule.durationSeconds * 1_000)',
  replace: 'counts.bannedUntilMs',
  suites: ['pure/decision'],
};
