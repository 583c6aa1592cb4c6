import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { installOnce } from '../helpers/client-programs.js';
import { describeIf } from '../helpers/describe-if.js';
import { listen } from '../helpers/listen.js';
import { type CommandResult, runProcess } from '../helpers/petstore.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';

const ROOT = join(__dirname, '..', '..');
/** As in the image: older versions know no proxy. */
const NODE = join(ROOT, 'test', 'weekly', 'node-versions', 'node-24');
/** Of a healthy service; `fetch` rejects it (WHATWG fetch, "port blocking"). */
const PORT = 10_080;

/** Stands in for Docker: there is one container, in which programs run as on this host; `stop` makes it the new one. */
const DOCKER = `#!/bin/sh
case "$*" in
  exec*) shift 2; exec "$@" ;;
  *' up '*) touch "$FOLDER/new" ;;
  *' ps '*) if [ -e "$FOLDER/new" ]; then echo new; fi; echo old ;;
  inspect*) echo 0 ;;
esac
`;

describeIf(process.platform === 'linux' && process.arch === 'x64', 'linux-x64')(
  'with a proxy in the environment',
  () => {
    const folder = useTemporaryFolder('proxied');
    const proxy = createServer((_request, response) => response.writeHead(502).end());
    const service = createServer((request, response) => {
      response.writeHead(request.url?.startsWith('/health/') === true ? 200 : 404).end();
    });
    let environment: Readonly<Record<string, string>>;

    beforeAll(async () => {
      installOnce(NODE);
      await once(service.listen(PORT, '127.0.0.1'), 'listening');
      writeFileSync(join(folder, 'docker'), DOCKER, { mode: 0o755 });
      writeFileSync(join(folder, 'sleep'), '#!/bin/sh\n', { mode: 0o755 });
      environment = {
        PATH: [folder, join(NODE, 'node_modules', 'node', 'bin'), process.env.PATH].join(':'),
        FOLDER: folder,
        PORT: String(PORT),
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
      expect(await run('node', join(ROOT, 'deploy', 'healthcheck.mjs'))).toMatchObject({ exitCode: 0 });
      const check = join(ROOT, 'deploy', 'healthcheck.mjs');
      expect(await run('env', 'PORT=1', `METRICS_PORT=${PORT}`, 'node', check)).toMatchObject({ exitCode: 0 });
      expect(await run('env', 'PORT=1', 'node', check)).toMatchObject({ exitCode: 1 });
    });

    it('a rolling update finds the new container ready', async () => {
      const update = await run('sh', join(ROOT, 'deploy', 'rolling-update.sh'), 'replica');
      expect(update).toMatchObject({ exitCode: 0, stderr: '' });
    });
  },
);
