/** @type {import('./run.mjs').Defect} */
export default {
  promise: 4,
  file: 'src/cli/command-database.ts',
  find: "configOf('NODE_ENV', 'DATABASE_URL', 'DATABASE_URL_FILE')",
  replace: "configOf('NODE_ENV', 'DATABASE_URL')",
  suites: ['commands/keys-errors'],
};
