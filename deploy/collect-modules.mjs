#!/usr/bin/env node
// Copies the packages that an image needs, and of each package only the files that Node loads:
//
//   node deploy/collect-modules.mjs TARGET PACKAGE…
//
// copies the named packages and their dependencies from node_modules to TARGET/node_modules.
import { cpSync, existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '..');

/** Types, source maps and documentation. Licences are kept, because they must accompany the code. */
const NEVER_LOADED = /(?<!licen[cs]e|copying|notice|readme)\.(?:map|md|flow|[cm]?ts)$/i;

/** Copies of the same code for bundlers and other databases, and what the page does not use, by package and path inside it. */
const OTHER_COPIES = {
  prisma: (path) => /^build\/query_compiler_/.test(path),
  'swagger-ui-dist': (path) => /^swagger-ui(?:-es-bundle(?:-core)?|-standalone-preset)?\.js$/.test(path),
};

/** @returns {string[]} */
function dependenciesOf(folder) {
  const { dependencies, optionalDependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  return Object.keys({ ...dependencies, ...optionalDependencies });
}

/** The package as Node resolves it, in the nearest node_modules; undefined for a package of another platform. */
function installedAt(name, dependent) {
  for (let folder = dependent; folder.startsWith(ROOT); folder = dirname(folder)) {
    const candidate = join(folder, 'node_modules', name);
    if (existsSync(join(candidate, 'package.json'))) {
      return candidate;
    }
  }
  return undefined;
}

/** @param {string} path inside the package; empty for the package itself */
function isLoaded(name, path) {
  // Nested packages are collected separately.
  return path !== 'node_modules' && !NEVER_LOADED.test(path) && !(OTHER_COPIES[name]?.(path) ?? false);
}

/**
 * @param {string} name
 * @param {string} dependent folder of the package that depends on it
 * @param {string} target
 * @param {Set<string>} collected folders that have been copied already
 */
function collect(name, dependent, target, collected) {
  const folder = installedAt(name, dependent);
  if (folder === undefined || collected.has(folder) || name.startsWith('@types/')) {
    return;
  }
  collected.add(folder);
  cpSync(folder, join(target, relative(ROOT, folder)), {
    recursive: true,
    filter: (source) => isLoaded(name, relative(folder, source)),
  });
  for (const dependency of dependenciesOf(folder)) {
    collect(dependency, folder, target, collected);
  }
}

const [target, ...names] = process.argv.slice(2);
if (target === undefined || names.length === 0) {
  process.stderr.write('usage: node deploy/collect-modules.mjs TARGET PACKAGE…\n');
  process.exit(2);
}
const collected = new Set();
for (const name of names) {
  collect(name, ROOT, target, collected);
}
process.stdout.write(`${collected.size} packages\n`);
