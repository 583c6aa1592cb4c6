import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

const ROOT = join(__dirname, '..', '..');
const IGNORED_FOLDERS = new Set(['node_modules', 'dist', 'coverage', '.data', '.git', 'generated']);
/** Files that a user or a build creates, and files of other projects. */
const NOT_IN_THE_REPOSITORY = /^(?:dist|coverage|node_modules|deploy\/secrets)\/|^[.@/]|^orders\.csv$|\.(?:go|lua)$/;

const files = filesBelow(ROOT, '');
const documents = files.filter((path) => path.endsWith('.md') && !path.startsWith('test/'));
/** Records and the changelog describe the past, so the paths in their text may be gone. Their links must still work. */
const current = documents.filter((path) => !path.startsWith('docs/records/') && path !== 'CHANGELOG.md');

const scripts = files.filter((path) => /(?:^Dockerfile|\.mjs|\.sh|\.yml)$/.test(path));

describe('scripts and container files', () => {
  it('use only compiled files whose source exists', () => {
    const missing = scripts.flatMap((script) =>
      compiledFilesIn(readFileSync(join(ROOT, script), 'utf8'))
        .map((path) => path.replace(/^dist\/(?:bundle\/)?(.*)\.js$/, 'src/$1.ts'))
        .filter((source) => !source.includes('/generated/') && !files.includes(source))
        .map((source) => `${script}: ${source}`),
    );
    expect(missing).toEqual([]);
  });
});

describe('the version of a release', () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };

  it.each([
    ['CHANGELOG.md', /(?<=^## \[).*(?=\] - )/m],
    ['package-lock.json', /(?<="version": ").*(?=")/],
    ['src/common/version.ts', /(?<=VERSION = ').*(?=')/],
    ['Dockerfile', /(?<=ARG VERSION=).*/g],
    ['docker-compose.yml', /(?<= VERSION: \$\{PETSTORE_VERSION:-).*(?=\})/g],
    ['deploy/kubernetes/example/kustomization.yaml', /(?<=newTag: ).*/g],
    ['deploy/kubernetes/example/migrate/kustomization.yaml', /(?<=newTag: ).*/g],
    ['docs/operations.md', /(?<=petstore-orders:)\d[\d.]*/g],
  ])('is the same in %s as in package.json', (path, named) => {
    expect(new Set(readFileSync(join(ROOT, path), 'utf8').match(named))).toEqual(new Set([version]));
  });
});

describe('documentation', () => {
  it.each(current)('%s names only files and folders that exist', (document) => {
    expect(pathsIn(readFileSync(join(ROOT, document), 'utf8')).filter((path) => !exists(path))).toEqual([]);
  });

  it.each(documents)('%s links only to files and headings that exist', (document) => {
    const text = readFileSync(join(ROOT, document), 'utf8');
    const links = [...text.matchAll(/\]\((?!https?:)([^)\s]+)\)/g)].map(([, target = '']) => target);
    expect(links.filter((target) => !linkWorks(document, target))).toEqual([]);
  });

  it.each(current)('%s names only npm scripts that exist', (document) => {
    const { scripts: defined } = JSON.parse(
      readFileSync(join(ROOT, document.startsWith('examples/') ? dirname(document) : '', 'package.json'), 'utf8'),
    ) as { scripts: Record<string, string> };
    const named = readFileSync(join(ROOT, document), 'utf8').matchAll(/npm run (?:--silent )?([\w:]+)/g);
    expect([...named].map(([, name = '']) => name).filter((name) => !(name in defined))).toEqual([]);
  });
});

describe('configuration of Jest', () => {
  const { LONG_SUITES } = jest.requireActual<{ LONG_SUITES: string[] }>('../../jest.config.js');

  it.each(LONG_SUITES)('excludes %s, which exists, from the quick suites', (pattern) => {
    const suite = new RegExp(`^${pattern.replace('**/', '').replaceAll('.', '[.]').replaceAll('*', '[^/]+')}$`);
    expect(files.filter((path) => suite.test(path))).not.toEqual([]);
  });
});

describe('configuration of the mutation tests', () => {
  const config = JSON.parse(readFileSync(join(ROOT, '.ci/mutation/stryker.config.json'), 'utf8')) as {
    mutate: string[];
  };

  it.each(config.mutate.flatMap(expandBraces))('mutates %s, which exists', (path) => {
    expect(files).toContain(path);
  });
});

/** Expands the one group of a pattern such as `src/{a,b}.ts`. */
function expandBraces(pattern: string): string[] {
  const [, before = '', group, after = ''] = /^(.*?)\{(.*)\}(.*)$/.exec(pattern) ?? [];
  return group === undefined ? [pattern] : group.split(',').map((name) => `${before}${name}${after}`);
}

/** Rooted paths anywhere in the text, and file names in code spans. */
function pathsIn(text: string): string[] {
  const rooted =
    text.match(/(?<![\w./@-])(?:src|test|docs|deploy|bench|prisma|examples|\.ci|bin)\/[\w.\-/]*[\w/]/g) ?? [];
  const named = [...text.matchAll(/`([\w.\-/]+\.(?:ts|mjs|js|cjs|sh|ya?ml|json|prisma|cfg|conf|sql|md))`/g)];
  return [...new Set([...rooted.sort(), ...named.map(([, path = '']) => path)])].filter(
    (path) => !NOT_IN_THE_REPOSITORY.test(path),
  );
}

/** Files below `dist/` that a command or an import names. */
function compiledFilesIn(text: string): string[] {
  return [...text.matchAll(/(?:\.\/|node |ROOT, ')(dist\/[\w./-]+\.js)/g)].map(([, path = '']) => path);
}

/** A whole path, the end of one, a folder, or a test without its suffix. */
function exists(path: string): boolean {
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

function linkWorks(document: string, target: string): boolean {
  const [path = '', anchor] = target.split('#');
  const file = path === '' ? join(ROOT, document) : resolve(ROOT, dirname(document), path);
  return existsSync(file) && (anchor === undefined || anchorsIn(file).includes(anchor));
}

/** The anchors that GitHub derives from the headings of a file. */
function anchorsIn(file: string): string[] {
  return [...readFileSync(file, 'utf8').matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

function filesBelow(folder: string, prefix: string): string[] {
  return readdirSync(folder)
    .filter((name) => !IGNORED_FOLDERS.has(name))
    .flatMap((name) => {
      const path = join(folder, name);
      return statSync(path).isDirectory() ? filesBelow(path, `${prefix}${name}/`) : [`${prefix}${name}`];
    });
}
