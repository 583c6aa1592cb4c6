// Compares openapi.json with the document that the code generates; with --write, writes it.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const CLI = fileURLToPath(new URL('../dist/cli.js', import.meta.url));
const FILE = fileURLToPath(new URL('../openapi.json', import.meta.url));

const described = execFileSync(process.execPath, [CLI, 'openapi'], { encoding: 'utf8' });
if (process.argv.includes('--write')) {
  writeFileSync(FILE, described);
} else if (described !== readFileSync(FILE, 'utf8')) {
  process.stderr.write('openapi.json does not match the code; run "npm run openapi:write".\n');
  process.exitCode = 1;
}
