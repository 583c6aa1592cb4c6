import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { documentedArchiveCommand } from '../helpers/documented-backup.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';

const PAGE = readFileSync(join(__dirname, '..', '..', 'docs', 'operations.md'), 'utf8');
/** Prints how it is called. Migrations and backups fail, the latter in the middle. */
const FAILING = `#!/bin/sh
echo "$(basename "$0") $*"
case "$*" in *'run --rm migrate'* | *' wait '* | *pg_dump* | *pg_basebackup*) exit 1 ;; esac
`;

describe('the commands of docs/operations.md', () => {
  const folder = useTemporaryFolder('documented');
  beforeAll(() => {
    for (const program of ['docker', 'kubectl']) {
      writeFileSync(join(folder, program), FAILING, { mode: 0o755 });
    }
  });

  function run(commands: string): { status: number | null; stdout: string } {
    const env = { PATH: `${folder}:${process.env.PATH}` };
    return spawnSync('sh', ['-c', commands], { cwd: folder, env, encoding: 'utf8' });
  }

  /** The first commands of a section that contain a word. */
  function documented(section: string, word: string): string {
    const [, text = ''] = PAGE.split(`# ${section}\n`);
    const blocks = [...text.matchAll(/```sh\n(.*?)```/gs)].map(([, block = '']) => block);
    return blocks.find((block) => block.includes(word)) ?? '';
  }

  it.each([
    ['Update', 'docker compose run --rm migrate'],
    ['Each version', 'kubectl -n petstore wait'],
  ])('under %s replace nothing when the migration fails', (section, migration) => {
    const { status, stdout } = run(documented(section, migration));
    expect(status).toBe(1);
    expect(stdout.trimEnd().split('\n').at(-1)).toContain(migration);
  });

  it.each([
    ['Dump', 'pg_dump', 'petstore.dump'],
    ['Point in time', 'pg_basebackup', 'petstore.tar'],
  ])('under %s keep the last backup when a new one fails', (section, program, file) => {
    writeFileSync(join(folder, file), 'whole');
    expect(run(documented(section, program)).status).toBe(1);
    expect(readFileSync(join(folder, file), 'utf8')).toBe('whole');
  });

  it('archive a file again whose copy was interrupted, and replace no other', () => {
    const [segment, archived] = [join(folder, 'segment'), join(folder, '000000010000000000000001')];
    // As PostgreSQL runs it.
    const command = documentedArchiveCommand(folder)
      .replaceAll('%p', segment)
      .replaceAll('%f', '000000010000000000000001');
    writeFileSync(segment, 'whole');
    const interrupted = 'cp() { head -c 2 "$1" > "$2"; return 1; };';
    expect(run(`${interrupted} ${command}`).status).not.toBe(0);
    expect(existsSync(archived)).toBe(false);

    expect(run(command).status).toBe(0);
    // PostgreSQL repeats what it has not recorded.
    expect(run(command).status).toBe(0);
    writeFileSync(segment, 'of another server');
    expect(run(command).status).not.toBe(0);
    expect(readFileSync(archived, 'utf8')).toBe('whole');
  });
});
