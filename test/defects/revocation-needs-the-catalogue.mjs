/** @type {import('./run.mjs').Defect} */
export default {
  promise: 4,
  file: 'src/cli/command-database.ts',
  find: '    warn(`Cannot find out who may create in the schema public: ${databaseMessageOf(error)}`);',
  replace: '    throw error;',
  suites: ['commands/keys-errors'],
};
