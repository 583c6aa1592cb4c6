import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';

const ROOT = join(__dirname, '..', '..');
const folder = useTemporaryFolder('build');

it('the build ends at the first step that fails and prints why', () => {
  for (const [name, script] of [
    ['prisma', 'echo "the schema is invalid"; exit 1'],
    ['nest', 'true'],
  ] as const) {
    writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  }
  const env = { PATH: `${folder}:${dirname(process.execPath)}:/usr/bin:/bin` };
  const options = { cwd: folder, env, encoding: 'utf8' } as const;
  const { status, stderr } = spawnSync('sh', [join(ROOT, 'scripts', 'build.sh')], options);
  expect([status, stderr]).toEqual([1, 'the schema is invalid\n']);
});

it('petstore exits with 1 and says so where it is not built', () => {
  const bin = join(folder, 'not-built', 'bin', 'petstore.js');
  mkdirSync(dirname(bin), { recursive: true });
  cpSync(join(ROOT, 'bin', 'petstore.js'), bin);
  writeFileSync(join(folder, 'not-built', 'package.json'), '{ "type": "module" }');
  const { status, stderr } = spawnSync(process.execPath, [bin, 'keys', 'list'], { encoding: 'utf8' });
  expect([status, stderr]).toEqual([1, expect.stringContaining('petstore is not built yet; run "npm run build"')]);
});
