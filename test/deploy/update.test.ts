import { execFile } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { listen } from '../helpers/listen.js';
import { runProcess } from '../helpers/petstore.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';

const DEPLOY = join(__dirname, '..', '..', 'deploy');
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

  it('replaces each container that runs, within its own stop_grace_period, and starts none that was stopped before', async () => {
    mkdirSync(join(folder, 'running'));
    mkdirSync(join(folder, 'stopped'));
    writeFileSync(join(folder, 'running', 'old'), '');
    writeFileSync(join(folder, 'stopped', 'older'), '');
    writeFileSync(join(folder, 'docker'), DOCKER, { mode: 0o755 });
    writeFileSync(join(folder, 'sleep'), '#!/bin/sh\n', { mode: 0o755 });
    await promisify(execFile)('sh', [join(DEPLOY, 'rolling-update.sh'), 'replica'], {
      env: { PATH: `${folder}:${process.env.PATH}`, FOLDER: folder },
    });
    expect(readFileSync(join(folder, 'stops'), 'utf8')).toBe('stop old\n');
    expect(readdirSync(join(folder, 'running'))).toEqual(['new']);
  });
});

/** The response to the n-th cancel of an order; undefined closes the connection. */
type Cancel = (orderId: number, attempt: number) => { status: number; code?: string } | undefined;

const correct: Cancel = (_orderId, attempt) =>
  attempt === 1 ? { status: 204 } : { status: 409, code: 'order_already_cancelled' };

describe('deploy/drill.mjs', () => {
  test.each<[string, Cancel, object]>([
    ['0 when no cancel is lost and no request fails', correct, { exitCode: 0, cancelsLost: 0, failures: 0 }],
    [
      '1 when a cancel that got 204 is lost',
      (id, attempt) => ([1, 7].includes(id) ? { status: 204 } : correct(id, attempt)),
      { exitCode: 1, cancelsLost: 2, failures: 0 },
    ],
    [
      '1 when connections are closed',
      (id, attempt) => ([1, 7].includes(id) ? undefined : correct(id, attempt)),
      { exitCode: 1, cancelsLost: 0, failures: 2 },
    ],
    [
      '1 when no order could be cancelled',
      () => ({ status: 401, code: 'invalid_api_key' }),
      { exitCode: 1, cancelled: 0 },
    ],
  ])('exits with %s', async (_when, cancel, expected) => {
    const attempts = new Map<number, number>();
    const server = createServer((req, res) => {
      const orderId = Number(req.url?.split('/').at(-1));
      const attempt = (attempts.get(orderId) ?? 0) + 1;
      attempts.set(orderId, attempt);
      const response = cancel(orderId, attempt);
      if (response === undefined) {
        req.socket.destroy();
      } else {
        res.writeHead(response.status).end(JSON.stringify({ code: response.code }));
      }
    });
    const command = [process.execPath, join(DEPLOY, 'drill.mjs'), `http://127.0.0.1:${await listen(server)}`, '1'];
    const { stdout, exitCode } = await runProcess(command, { PETSTORE_KEY: 'any' });
    server.closeAllConnections();
    server.close();
    expect({ ...(JSON.parse(stdout) as object), exitCode }).toMatchObject(expected);
  });
});
