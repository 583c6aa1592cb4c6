// Builds dist/ and the bundle in it, unless they are up to date: most starts during development change nothing.
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isUpToDate, rememberBuild } from './build-state.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const STEPS = [['prisma/generate.mjs'], ['node_modules/@nestjs/cli/bin/nest.js', 'build'], ['scripts/bundle.mjs']];

if (!isUpToDate(ROOT)) {
  // A failed build must leave nothing that could run.
  rmSync(join(ROOT, 'dist'), { recursive: true, force: true });
  for (const step of STEPS) {
    const { status } = spawnSync(process.execPath, step, { cwd: ROOT, stdio: 'inherit' });
    if (status !== 0) {
      process.exit(status ?? 1);
    }
  }
  rememberBuild(ROOT);
}
