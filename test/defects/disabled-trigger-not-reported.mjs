/** @type {import('./run.mjs').Defect} */
export default {
  promise: 2,
  file: 'src/orders/list/version-reader.ts',
  find: `    return problems;
`,
  replace: `    return problems.slice(problems.length);
`,
  suites: ['list/stale-never'],
};
