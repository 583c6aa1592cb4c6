/** @type {import('./run.mjs').Defect} */
export default {
  promise: 2,
  file: 'src/http/response.ts',
  find: "socket[httpVersionMinor === 0 ? 'resetAndDestroy' : 'destroy']();",
  replace: "socket[httpVersionMinor < 0 ? 'resetAndDestroy' : 'destroy']();",
  suites: ['list/interrupted'],
};
