import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';

/** What a build is made from; the last one changes when packages are installed. */
const INPUTS = [
  ...['src', 'scripts', 'prisma/schema.prisma', 'prisma/generate.mjs', 'prisma/engine', 'prisma.config.ts'],
  ...['nest-cli.json', 'tsconfig.json', 'tsconfig.build.json', 'package.json', 'node_modules/.package-lock.json'],
];
const GENERATED = join('src', 'database', 'generated');
export const STATE = join('dist', '.build-state');

/** A digest of what a build would be made from. Take it before the build: a file that is saved during the build is for the next one. */
export function inputsOf(root) {
  const digest = createHash('sha256').update(process.version);
  for (const file of filesIn(root, INPUTS).filter((path) => !path.startsWith(GENERATED))) {
    digest.update(`\0${file}\0`).update(readFileSync(join(root, file)));
  }
  return digest.digest('hex');
}

/** A digest that changes when anything writes to the outputs of a build, or deletes one. */
export function outputsOf(root) {
  const digest = createHash('sha256');
  for (const file of filesIn(root, ['dist', GENERATED]).filter((path) => path !== STATE)) {
    const { size, mtimeMs } = statSync(join(root, file));
    digest.update(`\0${file}\0${size}\0${mtimeMs}`);
  }
  return digest.digest('hex');
}

/** All files at and below the paths that exist, in order. */
function filesIn(root, paths) {
  const files = paths.flatMap((path) => {
    const stat = statSync(join(root, path), { throwIfNoEntry: false });
    return stat?.isDirectory()
      ? readdirSync(join(root, path), { recursive: true, withFileTypes: true })
          .filter((entry) => entry.isFile())
          .map((entry) => relative(root, join(entry.parentPath, entry.name)))
      : stat === undefined
        ? []
        : [path];
  });
  return files.sort();
}
