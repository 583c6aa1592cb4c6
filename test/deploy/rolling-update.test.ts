import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const SCRIPT = join(__dirname, '..', '..', 'deploy', 'rolling-update.sh');
/** Stands in for Docker: one container, a second one after `up`; notes how containers are stopped. */
const DOCKER = `#!/bin/sh
case "$*" in
  *' up '*) touch "$FOLDER/new" ;;
  *' ps '*) echo old; [ ! -e "$FOLDER/new" ] || echo new ;;
  stop*) echo "$*" >> "$FOLDER/stops" ;;
  inspect*) echo 0 ;;
esac
`;

describe('deploy/rolling-update.sh', () => {
  const folder = mkdtempSync(join(tmpdir(), 'petstore-rolling-'));
  afterAll(() => {
    rmSync(folder, { recursive: true });
  });

  it('lets a container finish within its own stop_grace_period', async () => {
    writeFileSync(join(folder, 'docker'), DOCKER, { mode: 0o755 });
    writeFileSync(join(folder, 'sleep'), '#!/bin/sh\n', { mode: 0o755 });
    await promisify(execFile)('sh', [SCRIPT, 'replica'], {
      env: { PATH: `${folder}:${process.env.PATH}`, FOLDER: folder },
    });
    expect(readFileSync(join(folder, 'stops'), 'utf8')).toBe('stop old\n');
  });
});
