import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** What a build is made from; the last one changes when packages are installed. */
const INPUTS = [
  ...['src', 'scripts', 'prisma/schema.prisma', 'prisma/generate.mjs', 'prisma.config.ts', 'nest-cli.json'],
  ...['tsconfig.json', 'tsconfig.build.json', 'package.json', 'node_modules/.package-lock.json'],
];
const GENERATED = join('src', 'database', 'generated');
const OUTPUTS = ['dist', GENERATED];
const STATE = join('dist', '.build-state');

/** Whether the last build was made from the inputs as they are now, and nothing has written to its outputs since. */
export function isUpToDate(root) {
  const path = join(root, STATE);
  return existsSync(path) && readFileSync(path, 'utf8') === stateOf(root);
}

/** Call after a successful build. */
export function rememberBuild(root) {
  writeFileSync(join(root, STATE), stateOf(root));
}

function stateOf(root) {
  const inputs = filesIn(root, INPUTS).filter((file) => !file.startsWith(GENERATED));
  const outputs = filesIn(root, OUTPUTS).filter((file) => file !== STATE);
  const state = createHash('sha256').update(process.version);
  for (const file of inputs) {
    state.update(`\0${file}\0`).update(readFileSync(join(root, file)));
  }
  for (const file of outputs) {
    const { size, mtimeMs } = statSync(join(root, file));
    state.update(`\0${file}\0${size}\0${mtimeMs}`);
  }
  return state.digest('hex');
}

function filesIn(root, paths) {
  return paths
    .filter((path) => existsSync(join(root, path)))
    .flatMap((path) =>
      statSync(join(root, path)).isDirectory()
        ? readdirSync(join(root, path), { recursive: true, withFileTypes: true })
            .filter((entry) => entry.isFile())
            .map((entry) => join(entry.parentPath.slice(root.length + 1), entry.name))
        : [path],
    )
    .sort();
}
