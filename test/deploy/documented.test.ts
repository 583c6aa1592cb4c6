import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { describeIf } from '../helpers/describe-if.js';
import { documentedArchiveCommand } from '../helpers/documented-backup.js';
import { installOnce } from '../helpers/install-once.js';
import { listen } from '../helpers/listen.js';
import { type CommandResult, runProcess } from '../helpers/petstore.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';

const ROOT = join(__dirname, '..', '..');
const DEPLOY = join(ROOT, 'deploy');
const PAGE = readFileSync(join(ROOT, 'docs', 'operations.md'), 'utf8');
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

/** As in the image: older versions know no proxy. */
const NODE = join(ROOT, 'test', 'weekly', 'node-versions', 'node-24');
/** Of a healthy service; `fetch` rejects it (WHATWG fetch, "port blocking"). */
const PORT = '10080';

/**
 * Stands in for Docker: the containers are the files in `$FOLDER/running` and `$FOLDER/stopped`, and programs run as on this host. Like
 * Compose, `up` starts a stopped container before it makes a new one, and `ps` shows only those that run.
 */
const DOCKER = `#!/bin/sh
case "$*" in
  exec*) shift 2; exec "$@" ;;
  *' up '*) mv "$FOLDER"/stopped/* "$FOLDER/running" 2>/dev/null || touch "$FOLDER/running/new" ;;
  *' ps '*) ls "$FOLDER/running" ;;
  *' rm '*) rm -f "$FOLDER"/stopped/* ;;
  stop*) echo "$*" >> "$FOLDER/stops" && mv "$FOLDER/running/$2" "$FOLDER/stopped" ;;
  rm*) rm "$FOLDER/stopped/$2" ;;
  inspect*) echo 0 ;;
esac
`;

describeIf(process.platform === 'linux' && process.arch === 'x64', 'linux-x64')(
  'with a proxy in the environment',
  () => {
    const folder = useTemporaryFolder('update');
    const proxy = createServer((_request, response) => response.writeHead(502).end());
    const service = createServer((request, response) => {
      response.writeHead(request.url?.startsWith('/health/') === true ? 200 : 404).end();
    });
    let environment: Readonly<Record<string, string>>;

    beforeAll(async () => {
      installOnce(NODE);
      await once(service.listen(Number(PORT), '127.0.0.1'), 'listening');
      mkdirSync(join(folder, 'running'));
      mkdirSync(join(folder, 'stopped'));
      writeFileSync(join(folder, 'docker'), DOCKER, { mode: 0o755 });
      writeFileSync(join(folder, 'sleep'), '#!/bin/sh\n', { mode: 0o755 });
      environment = {
        PATH: [folder, join(NODE, 'node_modules', 'node', 'bin'), process.env.PATH].join(':'),
        FOLDER: folder,
        PORT,
        METRICS_PORT: '0',
        NODE_USE_ENV_PROXY: '1',
        HTTP_PROXY: `http://127.0.0.1:${await listen(proxy)}`,
      };
    });
    afterAll(() => {
      proxy.close();
      service.close();
    });

    const run = (...command: string[]): Promise<CommandResult> => runProcess(command, environment);

    it('the health check of the image finds a healthy service healthy, and no other one', async () => {
      const check = join(DEPLOY, 'healthcheck.mjs');
      expect(await run('node', check)).toMatchObject({ exitCode: 0 });
      expect(await run('env', 'PORT=1', `METRICS_PORT=${PORT}`, 'node', check)).toMatchObject({
        exitCode: 0,
      });
      expect(await run('env', 'PORT=1', 'node', check)).toMatchObject({ exitCode: 1 });
    });

    it('a rolling update replaces each container that runs, within its own stop_grace_period, and starts none that was stopped before', async () => {
      writeFileSync(join(folder, 'running', 'old'), '');
      writeFileSync(join(folder, 'stopped', 'older'), '');
      const update = await run('sh', join(DEPLOY, 'rolling-update.sh'), 'replica');
      expect(update).toMatchObject({ exitCode: 0, stderr: '' });
      expect(readFileSync(join(folder, 'stops'), 'utf8')).toBe('stop old\n');
      expect(readdirSync(join(folder, 'running'))).toEqual(['new']);
    });
  },
);

describe('deploy/drill.mjs', () => {
  it.each([
    ['0 when no cancel is lost', [], { exitCode: 0, cancelsLost: 0, failures: 0 }],
    ['1 when cancels that got 204 are lost', [1, 7], { exitCode: 1, cancelsLost: 2, failures: 0 }],
  ])('exits with %s', async (_when, lost, expected) => {
    const cancelled = new Set<number>();
    const server = createServer((req, res) => {
      const orderId = Number(req.url?.split('/').at(-1));
      if (cancelled.has(orderId)) {
        res.writeHead(409).end(JSON.stringify({ code: 'order_already_cancelled' }));
        return;
      }
      if (!lost.includes(orderId)) {
        cancelled.add(orderId);
      }
      res.writeHead(204).end();
    });
    const command = [process.execPath, join(DEPLOY, 'drill.mjs'), `http://127.0.0.1:${await listen(server)}`, '1'];
    const { stdout, exitCode } = await runProcess(command, { PETSTORE_KEY: 'any' });
    server.closeAllConnections();
    server.close();
    expect({ ...(JSON.parse(stdout) as object), exitCode }).toMatchObject(expected);
  });
});
