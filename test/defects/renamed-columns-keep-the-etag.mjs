/** @type {import('./run.mjs').Defect} */
export default {
  promise: 2,
  file: 'src/orders/list/list-version.ts',
  find: '    ARRAY(SELECT xmin FROM pg_attribute WHERE attrelid = relation.oid AND attnum > 0 ORDER BY attnum),\n',
  replace: '',
  suites: ['list/stale-never'],
};
