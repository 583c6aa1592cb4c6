/** @type {import('./run.mjs').Defect} */
export default {
  promise: 4,
  file: 'src/api-keys/api-keys.service.ts',
  find: `listener.on(API_KEY_CHANGED_CHANNEL, (keyHash) => {
      this.invalidate(keyHash);`,
  replace: `listener.on(API_KEY_CHANGED_CHANNEL, (keyHash) => {
      void keyHash;`,
  suites: ['api-keys/authentication'],
};
