import { execFile } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { documentedArchiveCommand } from '../helpers/archive-command.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';

describe('the archive_command of docs/operations.md', () => {
  const folder = useTemporaryFolder('archive');
  const [segment, archived] = [join(folder, 'segment'), join(folder, '000000010000000000000001')];

  /** Runs it as PostgreSQL does. */
  function archive(programs = ''): Promise<unknown> {
    const command = documentedArchiveCommand(folder)
      .replaceAll('%p', segment)
      .replaceAll('%f', '000000010000000000000001');
    return promisify(execFile)('sh', ['-c', command], { env: { PATH: `${programs}:${process.env.PATH}` } });
  }

  it('archives a file again whose copy was interrupted, and replaces no other', async () => {
    writeFileSync(segment, 'whole');
    writeFileSync(join(folder, 'cp'), '#!/bin/sh\nhead -c 2 "$1" > "$2"; exit 1\n', { mode: 0o755 });
    await expect(archive(folder)).rejects.toThrow();
    expect(existsSync(archived)).toBe(false);

    await archive();
    // PostgreSQL repeats what it has not recorded.
    await archive();
    writeFileSync(segment, 'of another server');
    await expect(archive()).rejects.toThrow();
    expect(readFileSync(archived, 'utf8')).toBe('whole');
  });
});
