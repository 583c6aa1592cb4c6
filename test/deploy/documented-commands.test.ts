import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';

const ROOT = join(__dirname, '..', '..');
/** Prints how it is called. Migrations and backups fail, the latter in the middle. */
const FAILING = `#!/bin/sh
echo "$(basename "$0") $*"
case "$*" in *'run --rm migrate'* | *' wait '* | *pg_dump* | *pg_basebackup*) exit 1 ;; esac
`;

describe('documented commands', () => {
  const folder = useTemporaryFolder('documented');
  beforeAll(() => {
    for (const program of ['docker', 'kubectl']) {
      writeFileSync(join(folder, program), FAILING, { mode: 0o755 });
    }
  });

  /** Runs the first commands of a section that contain a word. */
  function run(page: string, section: string, word: string, cwd = ROOT): { status: number | null; stdout: string } {
    const [, text = ''] = readFileSync(join(ROOT, page), 'utf8').split(`# ${section}\n`);
    const blocks = [...text.matchAll(/```sh\n(.*?)```/gs)].map(([, block = '']) => block);
    const env = { PATH: `${folder}:${process.env.PATH}` };
    const commands = blocks.find((block) => block.includes(word)) ?? '';
    return spawnSync('sh', ['-c', commands], { cwd, env, encoding: 'utf8' });
  }

  it.each([
    ['docs/operations.md', 'Update', 'docker compose run --rm migrate'],
    ['docs/operations.md', 'Each version', 'kubectl -n petstore wait'],
  ])('of %s under %s replace nothing when the migration fails', (page, section, migration) => {
    const { status, stdout } = run(page, section, migration);
    expect(status).toBe(1);
    expect(stdout.trimEnd().split('\n').at(-1)).toContain(migration);
  });

  it.each([
    ['Dump', 'pg_dump', 'petstore.dump'],
    ['Point in time', 'pg_basebackup', 'petstore.tar'],
  ])('under %s keep the last backup when a new one fails', (section, program, file) => {
    writeFileSync(join(folder, file), 'whole');
    expect(run('docs/operations.md', section, program, folder).status).toBe(1);
    expect(readFileSync(join(folder, file), 'utf8')).toBe('whole');
  });
});
