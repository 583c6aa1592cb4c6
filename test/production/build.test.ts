import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, unlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';

const SCRIPTS = join(__dirname, '..', '..', 'scripts');
const folder = useTemporaryFolder('build');

const PRISMA = 'node_modules/prisma/build/index.js';
const COMPILER = 'node_modules/@nestjs/cli/bin/nest.js';
/** "Compiles" a source file by copying it. */
const COMPILE = "const fs = require('fs'); fs.mkdirSync('dist'); fs.copyFileSync('src/main.ts', 'dist/main.js');";
const FILES = {
  'src/main.ts': 'first',
  'src/database/generated/client.ts': 'generated',
  'prisma/schema.prisma': 'schema',
  [PRISMA]: "console.log('Generated');",
  'node_modules/.package-lock.json': '{}',
  'scripts/bundle.mjs': "import fs from 'node:fs'; fs.mkdirSync('dist/bundle');",
  [COMPILER]: COMPILE,
};

function write(file: string, content: string): void {
  mkdirSync(dirname(join(folder, file)), { recursive: true });
  writeFileSync(join(folder, file), content);
}

/** Runs the real scripts with a compiler and a bundler that do little. */
function build(): { status: number | null; upToDate: boolean; stdout: string; stderr: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['scripts/build.mjs'], { cwd: folder });
  const text = stderr.toString();
  return { status, upToDate: text === 'dist/ is up to date.\n', stdout: stdout.toString(), stderr: text };
}

const compiled = (): string => readFileSync(join(folder, 'dist/main.js'), 'utf8');

beforeAll(() => {
  cpSync(join(SCRIPTS, 'build.mjs'), join(folder, 'scripts', 'build.mjs'));
  for (const [file, content] of Object.entries(FILES)) {
    write(file, content);
  }
});

/** Each test leaves a build that is up to date. */
describe('the build', () => {
  it('compiles when there is no build', () => {
    expect(build()).toMatchObject({ status: 0, upToDate: false, stdout: '' });
    expect(compiled()).toBe('first');
  });

  it('does nothing and says so when nothing has changed, also after a file was saved unchanged', () => {
    write('src/main.ts', 'first');
    expect(build()).toMatchObject({ status: 0, upToDate: true, stdout: '' });
  });

  it.each([
    'src/main.ts',
    'src/database/generated/client.ts',
    'prisma/schema.prisma',
    'node_modules/.package-lock.json',
  ])('builds again when %s has changed', (file) => {
    write(file, 'other');
    expect(build()).toMatchObject({ status: 0, upToDate: false });
  });

  it.each([
    ['a source file is new', () => write('src/new.ts', '')],
    ['a compiled file is gone', () => unlinkSync(join(folder, 'dist/main.js'))],
    ['a compiled file was written again', () => utimesSync(join(folder, 'dist/main.js'), 1, 1)],
  ])('builds again when %s', (_what, change) => {
    change();
    expect(build()).toMatchObject({ status: 0, upToDate: false });
    expect(compiled()).toBe('other');
  });

  it('builds a file that was saved during a build the next time', () => {
    write(COMPILER, `${COMPILE} fs.writeFileSync('src/main.ts', 'saved during the build');`);
    write('src/main.ts', 'second');
    build();
    expect(compiled()).toBe('second');
    expect(build()).toMatchObject({ status: 0, upToDate: false });
    expect(compiled()).toBe('saved during the build');
    expect(build()).toMatchObject({ status: 0, upToDate: true });
  });

  it('prints what Prisma says only when it fails', () => {
    write(PRISMA, "console.log('Invalid schema'); process.exit(1);");
    write('prisma/schema.prisma', 'invalid');
    expect(build()).toMatchObject({ status: 1, stderr: expect.stringContaining('Invalid schema') as string });
    write(PRISMA, FILES[PRISMA]);
    expect(build()).toMatchObject({
      status: 0,
      stdout: '',
      stderr: expect.not.stringContaining('Generated') as string,
    });
  });

  it('leaves nothing that could run when it fails, and builds again', () => {
    write(COMPILER, `${COMPILE} process.exit(3);`);
    write('src/main.ts', 'invalid');
    expect(build()).toMatchObject({ status: 3, upToDate: false });
    expect(existsSync(join(folder, 'dist'))).toBe(false);
    write(COMPILER, COMPILE);
    expect(build()).toMatchObject({ status: 0, upToDate: false });
  });
});

it('petstore exits with 1 and says so where it is not built', () => {
  const bin = join(folder, 'not-built', 'bin', 'petstore.js');
  cpSync(join(SCRIPTS, '..', 'bin', 'petstore.js'), bin);
  writeFileSync(join(folder, 'not-built', 'package.json'), '{ "type": "module" }');
  const { status, stderr } = spawnSync(process.execPath, [bin, 'keys', 'list'], { encoding: 'utf8' });
  expect([status, stderr]).toEqual([1, expect.stringContaining('petstore is not built yet; run "npm run build"')]);
});
