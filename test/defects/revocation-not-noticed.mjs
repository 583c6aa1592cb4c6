/** @type {import('./run.mjs').Defect} */
export default {
  promise: 4,
  file: 'src/api-keys/api-keys.service.ts',
  find: `      this.#known.delete(keyHash);
    });`,
  replace: `      void keyHash;
    });`,
  suites: ['keys/taking-effect'],
};
