/** @type {import('./run.mjs').Defect} */
export default {
  promise: 8,
  file: 'prisma/migrations/20261122000003_service_role/migration.sql',
  find: 'UPDATE ("status", "cancelled_at") ON "orders"',
  replace: 'UPDATE ON "orders"',
  suites: ['deploy/service-role'],
};
