/** @type {import('./run.mjs').Defect} */
export default {
  promise: 5,
  file: 'src/rate-limit/redis-quota-store.ts',
  find: 'return rejection ?? this.#memory.consume(keyId, quotas, clock.now() + this.#clockOffsetMs);',
  replace:
    'return rejection ?? decide(countsOf([0, 0, 0, 0, 0, 0, 0, 0]), quotas, this.#withoutNewBans, clock.now()).verdict;',
  suites: ['replicas/shared-limits'],
};
