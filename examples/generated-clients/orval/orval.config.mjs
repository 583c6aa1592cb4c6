// npx orval@8.33.0 --config orval.config.mjs
export default {
  petstore: {
    input: 'openapi.json',
    output: {
      target: 'petstore.ts',
      client: 'fetch',
      override: { useBigInt: true, mutator: { path: 'exact-fetch.ts', name: 'exactFetch' } },
    },
  },
};
