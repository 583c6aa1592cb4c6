/** @type {import('./run.mjs').Defect} */
export default {
  promise: 8,
  file: 'prisma/migrations/20261122000000_orders_and_keys/migration.sql',
  find: `PERFORM pg_notify('api_key_changed', encode(NEW."key_hash", 'hex'));`,
  // Not found with the empty search path of a dump.
  replace: `PERFORM pg_notify('api_key_changed', encode("key_hash", 'hex')) FROM "api_keys" WHERE "id" = NEW."id";`,
  suites: ['deploy/backup'],
};
