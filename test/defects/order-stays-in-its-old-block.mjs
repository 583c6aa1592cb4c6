/** @type {import('./run.mjs').Defect} */
export default {
  promise: 2,
  file: 'prisma/migrations/20261122000001_order_list_versions/migration.sql',
  find: 'ARRAY[OLD."id" OPERATOR(pg_catalog.>>) 14, NEW."id" OPERATOR(pg_catalog.>>) 14] LOOP',
  replace: 'ARRAY[coalesce(NEW."id", OLD."id") OPERATOR(pg_catalog.>>) 14] LOOP',
  suites: ['list/stale-never'],
};
