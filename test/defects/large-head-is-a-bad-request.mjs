/** @type {import('./run.mjs').Defect} */
export default {
  promise: 6,
  file: 'src/http/parser-errors.ts',
  find: "  HPE_HEADER_OVERFLOW: 'request_header_fields_too_large',\n",
  replace: '',
  suites: ['requests/400-408-431'],
};
