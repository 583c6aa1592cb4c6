// Builds dist/ and the bundle in it, unless they are up to date: most starts during development change nothing.
import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isUpToDate, rememberBuild } from './build-state.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const NEST = join(ROOT, 'node_modules/@nestjs/cli/bin/nest.js');

function run(...args) {
  execFileSync(process.execPath, args, { cwd: ROOT, stdio: 'inherit' });
}

if (!isUpToDate(ROOT)) {
  try {
    // A failed build must leave nothing that could run.
    rmSync(join(ROOT, 'dist'), { recursive: true, force: true });
    run('prisma/generate.mjs');
    run(NEST, 'build');
    run('scripts/bundle.mjs');
    rememberBuild(ROOT);
  } catch {
    // The failed step has reported the error.
    process.exitCode = 1;
  }
}
