/** @type {import('./run.mjs').Defect} */
export default {
  promise: 8,
  file: 'src/database/pools.ts',
  find: "pool.on('error', (error) => {",
  replace: "pool.once('error', (error) => {",
  suites: ['outages/postgres'],
};
