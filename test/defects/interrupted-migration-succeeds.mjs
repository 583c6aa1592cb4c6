/** @type {import('./run.mjs').Defect} */
export default {
  promise: 8,
  file: 'prisma.config.ts',
  find: "process.once('exit', () => (process.exitCode = 1));",
  replace: "process.once('exit', () => (process.exitCode = 0));",
  suites: ['commands/migrate'],
};
