// `nest build` and the bundle, unless nothing has changed since the last build: most starts during development change nothing.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { inputsOf, outputsOf, STATE } from './build-state.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const STEPS = [['prisma/generate.mjs'], ['node_modules/@nestjs/cli/bin/nest.js', 'build'], ['scripts/bundle.mjs']];

const state = join(ROOT, STATE);
// A failed or interrupted build must leave nothing that could run.
const removeOutputs = () => rmSync(join(ROOT, 'dist'), { recursive: true, force: true });

const inputs = inputsOf(ROOT);
if (existsSync(state) && readFileSync(state, 'utf8') === inputs + outputsOf(ROOT)) {
  process.stderr.write('dist/ is up to date.\n');
} else {
  process.stderr.write('Building dist/, which takes about 20 seconds.\n');
  removeOutputs();
  for (const step of STEPS) {
    const { status } = spawnSync(process.execPath, step, { cwd: ROOT, stdio: 'inherit' });
    if (status !== 0) {
      removeOutputs();
      process.exit(status ?? 1);
    }
  }
  writeFileSync(state, inputs + outputsOf(ROOT));
}
