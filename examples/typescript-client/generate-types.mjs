// Generates src/interface.ts from openapi.json; with --check, only verifies that it is up to date.
import { readFileSync, writeFileSync } from 'node:fs';
import openapiTS, { astToString } from 'openapi-typescript';
import ts from 'typescript';

const DOCUMENT = new URL('../../openapi.json', import.meta.url);
const TYPES = new URL('src/interface.ts', import.meta.url);

const BIGINT = ts.factory.createKeywordTypeNode(ts.SyntaxKind.BigIntKeyword);

const tree = await openapiTS(DOCUMENT, {
  // A JavaScript number cannot hold every int64.
  transform: (schema) => (schema.type === 'integer' && schema.format === 'int64' ? BIGINT : undefined),
});
const text = `// Generated from openapi.json by "npm run generate". Do not edit.\n\n${astToString(tree)}`;

if (!process.argv.includes('--check')) {
  writeFileSync(TYPES, text);
} else if (readFileSync(TYPES, 'utf8') !== text) {
  process.stderr.write(
    'src/interface.ts does not match openapi.json; run "node examples/typescript-client/generate-types.mjs".\n',
  );
  process.exitCode = 1;
}
