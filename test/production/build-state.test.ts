import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, unlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

const MODULE = pathToFileURL(join(__dirname, '..', '..', 'scripts', 'build-state.mjs')).href;

const FILES = ['src/main.ts', 'prisma/schema.prisma', 'node_modules/.package-lock.json', 'dist/main.js'];
const CLIENT = 'src/database/generated/client.ts';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'petstore-build-state-'));
  for (const file of [...FILES, CLIENT]) {
    write(file, 'first');
  }
  call('rememberBuild');
});
afterEach(() => {
  rmSync(root, { recursive: true, force: true });
});

function write(file: string, content: string): void {
  mkdirSync(dirname(join(root, file)), { recursive: true });
  writeFileSync(join(root, file), content);
}

/** In a process of its own: Jest cannot import an ES module of scripts/. */
function call(name: 'rememberBuild' | 'isUpToDate'): string {
  const code = `import { ${name} } from '${MODULE}'; console.log(${name}(process.argv[1]));`;
  return execFileSync(process.execPath, ['--input-type=module', '--eval', code, root], { encoding: 'utf8' }).trim();
}

describe('the build', () => {
  it('is up to date when nothing has changed, also after a file was saved unchanged', () => {
    write('src/main.ts', 'first');
    expect(call('isUpToDate')).toBe('true');
  });

  it.each([...FILES, CLIENT])('is out of date when %s has changed', (file) => {
    write(file, 'other');
    expect(call('isUpToDate')).toBe('false');
  });

  it.each([
    ['a source file is new', () => write('src/new.ts', '')],
    ['a source file is gone', () => unlinkSync(join(root, 'src/main.ts'))],
    ['a compiled file is gone', () => unlinkSync(join(root, 'dist/main.js'))],
    ['a compiled file was written again', () => utimesSync(join(root, 'dist/main.js'), 1, 1)],
    ['there is no build', () => rmSync(join(root, 'dist'), { recursive: true })],
  ])('is out of date when %s', (_what, change) => {
    change();
    expect(call('isUpToDate')).toBe('false');
  });
});
