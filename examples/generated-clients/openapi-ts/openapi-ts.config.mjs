// npx openapi-ts -f openapi-ts.config.mjs
export default {
  input: 'openapi.json',
  output: 'petstore',
  plugins: ['@hey-api/client-fetch', '@hey-api/sdk', { name: '@hey-api/transformers', bigInt: true, dates: false }],
};
