// node generate.mjs; npm install swagger-typescript-api@13.13.0
import { resolve } from 'node:path';
import { generateApi } from 'swagger-typescript-api';

await generateApi({
  input: resolve('openapi.json'),
  output: process.cwd(),
  fileName: 'petstore.ts',
  primitiveTypeConstructs: () => ({ integer: { int64: () => 'bigint', $default: () => 'number' } }),
});
