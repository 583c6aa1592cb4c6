// node generate.mjs
import { resolve } from 'node:path';
import { generateApi } from 'swagger-typescript-api';

await generateApi({
  input: resolve('openapi.json'),
  output: process.cwd(),
  fileName: 'petstore.ts',
  primitiveTypeConstructs: () => ({ integer: { int64: () => 'bigint', $default: () => 'number' } }),
});
