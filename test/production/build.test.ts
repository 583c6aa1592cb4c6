import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';

const ROOT = join(__dirname, '..', '..');
const folder = useTemporaryFolder('build');

/** Runs the script of `npm run build` where only these programs are installed. */
function build(programs: Readonly<Record<string, string>>): { status: number | null; stderr: string } {
  for (const [name, script] of Object.entries(programs)) {
    writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  }
  const env = { PATH: `${folder}:${dirname(process.execPath)}:/usr/bin:/bin` };
  return spawnSync('sh', [join(ROOT, 'scripts', 'build.sh')], { cwd: folder, env, encoding: 'utf8' });
}

it('the build names the command that installs the development packages when they are missing', () => {
  expect(build({})).toMatchObject({
    status: 1,
    stderr: 'error: the build needs the development packages; run "npm ci --include=dev"\n',
  });
});

it('the build ends at the first step that fails and prints why', () => {
  expect(build({ nest: 'true', prisma: 'echo "the schema is invalid"; exit 1' })).toMatchObject({
    status: 1,
    stderr: 'the schema is invalid\n',
  });
  expect(build({ nest: 'echo "src/main.ts: error" >&2; exit 1', prisma: 'echo Generated' })).toMatchObject({
    status: 1,
    stderr: 'src/main.ts: error\n',
  });
});

it('petstore exits with 1 and says so where it is not built', () => {
  const bin = join(folder, 'not-built', 'bin', 'petstore.js');
  mkdirSync(dirname(bin), { recursive: true });
  cpSync(join(ROOT, 'bin', 'petstore.js'), bin);
  writeFileSync(join(folder, 'not-built', 'package.json'), '{ "type": "module" }');
  const { status, stderr } = spawnSync(process.execPath, [bin, 'keys', 'list'], { encoding: 'utf8' });
  expect([status, stderr]).toEqual([1, expect.stringContaining('petstore is not built yet; run "npm run build"')]);
});
