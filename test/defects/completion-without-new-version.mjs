/** @type {import('./run.mjs').Defect} */
export default {
  promise: 2,
  file: 'prisma/migrations/20261122000001_order_list_versions/migration.sql',
  find: ' OR OLD."complete" IS DISTINCT FROM NEW."complete"',
  replace: '',
  suites: ['list/stale-never'],
};
