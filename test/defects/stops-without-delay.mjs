/** @type {import('./run.mjs').Defect} */
export default {
  promise: 7,
  file: 'src/http/drain.ts',
  find: 'this.config.shutdownDelaySeconds * 1_000',
  replace: 'this.config.shutdownDelaySeconds',
  suites: ['server/shutdown'],
};
