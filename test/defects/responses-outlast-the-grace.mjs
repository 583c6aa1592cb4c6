/** @type {import('./run.mjs').Defect} */
export default {
  promise: 7,
  file: 'src/http/service-http-adapter.ts',
  find: 'this.connections.cut();',
  replace: 'this.connections.endIdle();',
  suites: ['outages/stop'],
};
