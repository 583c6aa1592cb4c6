/** @type {import('./run.mjs').Defect} */
export default {
  promise: 8,
  file: 'src/config/environment.ts',
  find: '${secret === undefined ? ` (got ${quoted(text)})` : hintOf(text)}',
  replace: ' (got ${quoted(text)})${secret === undefined ? "" : hintOf(text)}',
  suites: ['pure/config'],
};
