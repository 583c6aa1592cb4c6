/** @type {import('./run.mjs').Defect} */
export default {
  promise: 8,
  file: 'prisma/engine/schema-engine.mjs',
  find: 'process.exitCode = 1;\n      }',
  replace: 'process.exitCode = 0;\n      }',
  suites: ['database/migration-command'],
};
