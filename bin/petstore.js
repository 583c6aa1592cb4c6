#!/usr/bin/env node
// Stands here and not in dist/ because a build forgets which files are executable.
import { existsSync } from 'node:fs';

const cli = new URL('../dist/cli.js', import.meta.url);
if (existsSync(cli)) {
  await import(cli.href);
} else {
  process.stderr.write('error: petstore is not built yet; run "npm run build" (or "npm start", which builds first).\n');
  process.exitCode = 1;
}
