import { execFile } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';

const SCRIPT = join(__dirname, '..', '..', 'deploy', 'rolling-update.sh');
/**
 * Stands in for Docker: the containers are the files in `$FOLDER/running` and `$FOLDER/stopped`. Like Compose, `up` starts a stopped
 * container before it makes a new one, and `ps` shows only those that run.
 */
const DOCKER = `#!/bin/sh
case "$*" in
  *' up '*) mv "$FOLDER"/stopped/* "$FOLDER/running" 2>/dev/null || touch "$FOLDER/running/new" ;;
  *' ps '*) ls "$FOLDER/running" ;;
  *' rm '*) rm -f "$FOLDER"/stopped/* ;;
  stop*) echo "$*" >> "$FOLDER/stops" && mv "$FOLDER/running/$2" "$FOLDER/stopped" ;;
  rm*) rm "$FOLDER/stopped/$2" ;;
  inspect*) echo 0 ;;
esac
`;

describe('deploy/rolling-update.sh', () => {
  const folder = useTemporaryFolder('rolling');

  beforeEach(() => {
    mkdirSync(join(folder, 'running'));
    mkdirSync(join(folder, 'stopped'));
    writeFileSync(join(folder, 'running', 'old'), '');
    writeFileSync(join(folder, 'docker'), DOCKER, { mode: 0o755 });
    writeFileSync(join(folder, 'sleep'), '#!/bin/sh\n', { mode: 0o755 });
  });
  afterEach(() => {
    for (const name of readdirSync(folder)) {
      rmSync(join(folder, name), { recursive: true });
    }
  });

  async function update(): Promise<void> {
    await promisify(execFile)('sh', [SCRIPT, 'replica'], {
      env: { PATH: `${folder}:${process.env.PATH}`, FOLDER: folder },
    });
  }

  it('lets a container finish within its own stop_grace_period', async () => {
    await update();
    expect(readFileSync(join(folder, 'stops'), 'utf8')).toBe('stop old\n');
    expect(readdirSync(join(folder, 'running'))).toEqual(['new']);
  });

  it('does not start a container again that an interrupted update has stopped', async () => {
    writeFileSync(join(folder, 'stopped', 'older'), '');
    await update();
    expect(readdirSync(join(folder, 'running'))).toEqual(['new']);
  });
});
