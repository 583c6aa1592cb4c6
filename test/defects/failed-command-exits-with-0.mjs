/** @type {import('./run.mjs').Defect} */
export default {
  promise: 8,
  file: 'src/cli.ts',
  find: 'process.exit(await runCommand(process.argv.slice(2)));',
  replace: 'await runCommand(process.argv.slice(2));\nprocess.exit();',
  suites: ['commands/command-line'],
};
