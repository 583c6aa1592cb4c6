/** @type {import('./run.mjs').Defect} */
export default {
  promise: 3,
  file: 'src/orders/list/list-snapshot.ts',
  find: 'this.pools.image,',
  replace: 'this.pools.list,',
  suites: ['list/503'],
};
