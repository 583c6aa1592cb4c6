/** @type {import('./run.mjs').Defect} */
export default {
  promise: 8,
  file: 'prisma/engine/pooler.mjs',
  find: 'if (!hasPooler(client, process)) {',
  replace: 'if (hasPooler(client, process)) {',
  suites: ['deploy/pgbouncer'],
};
