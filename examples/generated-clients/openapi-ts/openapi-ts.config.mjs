// npx --package @hey-api/openapi-ts@0.95.0 --package typescript@6.0.3 openapi-ts -f openapi-ts.config.mjs
// Not with TypeScript 7, which has no interface for programs.
export default {
  input: 'openapi.json',
  output: 'petstore',
  plugins: ['@hey-api/client-fetch', '@hey-api/sdk', { name: '@hey-api/transformers', bigInt: true, dates: false }],
};
