/** @type {import('./run.mjs').Defect} */
export default {
  promise: 8,
  file: 'src/database/check-server.ts',
  find: 'if (!(await keepTheirServers(clients))) {',
  replace: 'if ((await keepTheirServers(clients)) === undefined) {',
  suites: ['matrix/pgbouncer'],
};
