/** @type {import('./run.mjs').Defect} */
export default {
  promise: 8,
  file: 'src/usage/usage-recorder.ts',
  find: "this.#attempt('write usage', () => this.repository.addUsage(rows, this.clock.now()));",
  replace: `this.#attempt('write usage', async () => {
      await this.repository.addUsage(rows, this.clock.now());
      await this.repository.touch(rows.map(({ keyId }) => keyId));
    });`,
  suites: ['api-keys/usage'],
};
