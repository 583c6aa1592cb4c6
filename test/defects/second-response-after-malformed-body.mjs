/** @type {import('./run.mjs').Defect} */
export default {
  promise: 6,
  file: 'src/http/connections.ts',
  find: `const { pending = [], latest } = this.#open.get(socket) ?? {};
    return pending.length > 0 || latest?.complete === false;`,
  replace: `const { pending = [] } = this.#open.get(socket) ?? {};
    return pending.length > 0;`,
  suites: ['requests/400-408-431'],
};
