/** @type {import('./run.mjs').Defect} */
export default {
  promise: 6,
  file: 'src/all-exceptions.filter.ts',
  find: `const message = code === 'bad_request' ? (exception as HttpException).message : undefined;`,
  replace: 'const { message } = exception as HttpException;',
  suites: ['requests/500-503'],
};
