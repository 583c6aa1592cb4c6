/** @type {import('./run.mjs').Defect} */
export default {
  promise: 4,
  file: 'src/api-keys/api-keys.repository.ts',
  find: ' AND revoked_at IS NULL',
  replace: '',
  suites: ['requests/401'],
};
