/** @type {import('./run.mjs').Defect} */
export default {
  promise: 8,
  file: 'src/main.ts',
  find: "logger.log('stopping');",
  replace: "logger.log('stopping');\n    await embedded?.stop();",
  suites: ['commands/serve'],
};
