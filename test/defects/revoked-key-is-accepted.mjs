/** @type {import('./run.mjs').Defect} */
export default {
  promise: 4,
  file: 'src/api-keys/api-keys.repository.ts',
  find: ', revokedAt: null }',
  replace: ' }',
  suites: ['api-keys/authentication'],
};
