/** @type {import('./run.mjs').Defect} */
export default {
  promise: 5,
  file: 'src/rate-limit/redis-quota-store.ts',
  find: 'this.#memory = new MemoryQuotaStore(options);',
  replace: `this.#memory = {
      consume: (id: string, quotas: Quotas) => new MemoryQuotaStore(options).consume(id, quotas),
      liftBan: () => undefined,
    } as unknown as MemoryQuotaStore;`,
  suites: ['outages/redis'],
};
