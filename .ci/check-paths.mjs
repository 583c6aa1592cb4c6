/**
 * Checks what documents, scripts and configuration name: paths, links, npm scripts, compiled files, and versions.
 * Prints what does not exist, each with the file that names it.
 */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const IGNORED_FOLDERS = new Set(['node_modules', 'dist', 'coverage', '.data', '.git', 'generated']);
/** Files that a user or a build creates, and files of other projects. */
const NOT_IN_THE_REPOSITORY = /^(?:dist|coverage|node_modules|deploy\/secrets)\/|^[.@/]|^orders\.csv$|\.(?:go|lua)$/;

/** Where the version stands that the software says it has: between releases, that of the next one with -dev. */
const VERSIONS = [
  ['package-lock.json', /(?<="version": ").*(?=")/],
  ['src/common/version.ts', /(?<=VERSION = ').*(?=')/],
  ['Dockerfile', /(?<=ARG VERSION=).*/g],
  ['docker-compose.yml', /(?<= VERSION: \$\{PETSTORE_VERSION:-).*(?=\})/g],
];
const LAST_RELEASE = /(?<=^## \[)\d[^\]]*(?=\] - )/m;
/** Where the last release stands. */
const RELEASES = [
  ['CHANGELOG.md', LAST_RELEASE],
  ['deploy/kubernetes/example/kustomization.yaml', /(?<=newTag: ).*/g],
  ['deploy/kubernetes/example/migrate/kustomization.yaml', /(?<=newTag: ).*/g],
  ['docs/operations.md', /(?<=petstore-orders:)\d[\d.]*/g],
];

const files = filesBelow(ROOT, '');
const documents = files.filter((path) => path.endsWith('.md') && !path.startsWith('test/'));
/** Records and the changelog describe the past, so the paths in their text may be gone. Their links must still work. */
const current = documents.filter((path) => !path.startsWith('docs/records/') && path !== 'CHANGELOG.md');
const scripts = files.filter((path) => /(?:^Dockerfile|\.mjs|\.sh|\.yml)$/.test(path));

const { version } = JSON.parse(read('package.json'));
const release = version.endsWith('-dev') ? LAST_RELEASE.exec(read('CHANGELOG.md'))?.[0] : version;

const problems = [
  ...scripts.flatMap((script) =>
    compiledFilesIn(read(script))
      .map((path) => path.replace(/^dist\/(?:bundle\/)?(.*)\.js$/, 'src/$1.ts'))
      .filter((source) => !source.includes('/generated/') && !files.includes(source))
      .map((source) => `${script} uses what ${source}, which does not exist, would be compiled to`),
  ),
  ...VERSIONS.filter(([path, named]) => !areAll(version, read(path).match(named))).map(
    ([path]) => `${path} does not name the version of package.json`,
  ),
  ...RELEASES.filter(([path, named]) => !areAll(release, read(path).match(named))).map(
    ([path]) => `${path} does not name the last release, ${release}`,
  ),
  ...current.flatMap((document) => [
    ...pathsIn(read(document))
      .filter((path) => !exists(path))
      .map((path) => `${document} names ${path}, which does not exist`),
    ...scriptsIn(document).map((name) => `${document} names the npm script ${name}, which does not exist`),
  ]),
  ...documents.flatMap((document) =>
    [...read(document).matchAll(/\]\((?!https?:)([^)\s]+)\)/g)]
      .filter(([, target]) => !linkWorks(document, target))
      .map(([, target]) => `${document} links to ${target}, which does not exist`),
  ),
];

for (const problem of problems) {
  console.error(problem);
}
process.exitCode = problems.length === 0 ? 0 : 1;

function read(path) {
  return readFileSync(join(ROOT, path), 'utf8');
}

function areAll(expected, versions) {
  return versions !== null && [...versions].every((each) => each === expected);
}

/** The npm scripts that a document names and its package lacks. */
function scriptsIn(document) {
  const { scripts: defined } = JSON.parse(
    read(join(document.startsWith('examples/') ? dirname(document) : '', 'package.json')),
  );
  const named = read(document).matchAll(/npm run (?:--silent )?([\w:]+)/g);
  return [...named].map(([, name]) => name).filter((name) => !(name in defined));
}

/** Rooted paths anywhere in the text, and file names in code spans. */
function pathsIn(text) {
  const rooted =
    text.match(/(?<![\w./@-])(?:src|test|docs|deploy|bench|prisma|examples|\.ci|bin)\/[\w.\-/]*[\w/]/g) ?? [];
  const named = [...text.matchAll(/`([\w.\-/]+\.(?:ts|mjs|js|cjs|sh|ya?ml|json|prisma|cfg|conf|sql|md))`/g)];
  return [...new Set([...rooted.sort(), ...named.map(([, path = '']) => path)])].filter(
    (path) => !NOT_IN_THE_REPOSITORY.test(path),
  );
}

/** Files below `dist/` that a command or an import names. */
function compiledFilesIn(text) {
  return [...text.matchAll(/(?:\.\/|node |ROOT, ')(dist\/[\w./-]+\.js)/g)].map(([, path = '']) => path);
}

/** A whole path, the end of one, a folder, or a test without its suffix. */
function exists(path) {
  const name = path.replace(/\/$/, '');
  return files.some(
    (file) =>
      file === name ||
      file.endsWith(`/${name}`) ||
      file.startsWith(`${name}/`) ||
      file.includes(`/${name}/`) ||
      file === `${name}.test.ts`,
  );
}

function linkWorks(document, target) {
  const [path = '', anchor] = target.split('#');
  const file = path === '' ? join(ROOT, document) : resolve(ROOT, dirname(document), path);
  return existsSync(file) && (anchor === undefined || anchorsIn(file).includes(anchor));
}

/** The anchors that GitHub derives from the headings of a file. */
function anchorsIn(file) {
  return [...readFileSync(file, 'utf8').matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

function filesBelow(folder, prefix) {
  return readdirSync(folder)
    .filter((name) => !IGNORED_FOLDERS.has(name))
    .flatMap((name) => {
      const path = join(folder, name);
      return statSync(path).isDirectory() ? filesBelow(path, `${prefix}${name}/`) : [`${prefix}${name}`];
    });
}
