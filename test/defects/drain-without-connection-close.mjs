/** @type {import('./run.mjs').Defect} */
export default {
  promise: 7,
  file: 'src/http/drain.ts',
  find: '    connections.startDraining();\n',
  replace: '',
  suites: ['server/shutdown'],
};
