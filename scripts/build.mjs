// The Prisma client, `nest build` and the bundle, unless nothing has changed since the last build: most starts during development
// change nothing.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

/** What a build is made from; the last one changes when packages are installed. */
const INPUTS = [
  ...['src', 'scripts', 'prisma/schema.prisma', 'prisma/engine', 'prisma.config.ts'],
  ...['nest-cli.json', 'tsconfig.json', 'tsconfig.build.json', 'package.json', 'node_modules/.package-lock.json'],
];
const GENERATED = join('src', 'database', 'generated');
/** Digests of the inputs and outputs of the last build. */
const STATE = join('dist', '.build-state');

/** Before the build: a file that is saved during the build is for the next one. */
const inputs = digestOfInputs();
const state = join(ROOT, STATE);
if (existsSync(state) && readFileSync(state, 'utf8') === inputs + digestOfOutputs()) {
  process.stderr.write('dist/ is up to date.\n');
} else {
  process.stderr.write('Building dist/, which takes about 20 seconds.\n');
  removeOutputs();
  run(['node_modules/prisma/build/index.js', 'generate', '--no-hints'], {
    // Printed only when it fails.
    stdio: 'pipe',
    // It needs no database, and the variable may be that of another project.
    env: { ...process.env, DATABASE_URL: '', DATABASE_URL_FILE: '' },
  });
  run(['node_modules/@nestjs/cli/bin/nest.js', 'build']);
  run(['scripts/bundle.mjs']);
  writeFileSync(state, inputs + digestOfOutputs());
}

/** Runs a step of the build, and ends when it fails. */
function run(step, options) {
  const { status, stdout, stderr } = spawnSync(process.execPath, step, { cwd: ROOT, stdio: 'inherit', ...options });
  if (status !== 0) {
    process.stderr.write(`${stdout ?? ''}${stderr ?? ''}`);
    removeOutputs();
    process.exit(status ?? 1);
  }
}

/** A failed or interrupted build must leave nothing that could run. */
function removeOutputs() {
  rmSync(join(ROOT, 'dist'), { recursive: true, force: true });
}

/** A digest of what a build would be made from. */
function digestOfInputs() {
  const digest = createHash('sha256').update(process.version);
  for (const file of filesIn(INPUTS).filter((path) => !path.startsWith(GENERATED))) {
    digest.update(`\0${file}\0`).update(readFileSync(join(ROOT, file)));
  }
  return digest.digest('hex');
}

/** A digest that changes when anything writes to the outputs of a build, or deletes one. */
function digestOfOutputs() {
  const digest = createHash('sha256');
  for (const file of filesIn(['dist', GENERATED]).filter((path) => path !== STATE)) {
    const { size, mtimeMs } = statSync(join(ROOT, file));
    digest.update(`\0${file}\0${size}\0${mtimeMs}`);
  }
  return digest.digest('hex');
}

/** All files at and below the paths that exist, in order. */
function filesIn(paths) {
  const files = paths.flatMap((path) => {
    const stat = statSync(join(ROOT, path), { throwIfNoEntry: false });
    return stat?.isDirectory()
      ? readdirSync(join(ROOT, path), { recursive: true, withFileTypes: true })
          .filter((entry) => entry.isFile())
          .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)))
      : stat === undefined
        ? []
        : [path];
  });
  return files.sort();
}
