/** @type {import('./run.mjs').Defect} */
export default {
  promise: 7,
  file: 'src/http/service-http-adapter.ts',
  find: 'this.config.shutdownDelaySeconds * 1_000',
  replace: 'this.config.shutdownDelaySeconds * 0',
  suites: ['outages/stop'],
};
