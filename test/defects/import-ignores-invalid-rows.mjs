/** @type {import('./run.mjs').Defect} */
export default {
  promise: 8,
  file: 'src/orders/import/read-csv.ts',
  find: '  }\n  reject(problems);\n',
  replace: '  }\n',
  suites: ['import/files'],
};
