import { connect, type Socket } from 'node:net';
import { CLI } from '../helpers/build.js';
import { runProcess } from '../helpers/petstore.js';
import { useServiceProcess } from '../helpers/service-process.js';
import { waitFor } from '../helpers/wait-for.js';

const CONNECTIONS_MAX = 3;

/** A process that may open 400 files. */
const LIMITED = ['sh', '-c', 'ulimit -n 400; exec "$@"', 'sh', process.execPath, CLI];

const context = useServiceProcess({ MAX_CONNECTIONS: String(CONNECTIONS_MAX) });
const sockets: Socket[] = [];

async function metric(name: string): Promise<number> {
  return (await context.metrics()).sum(name);
}

async function open(): Promise<Socket> {
  const socket = connect(context.service.port, '127.0.0.1');
  sockets.push(socket);
  socket.on('error', () => undefined);
  await new Promise((resolve) => socket.once('connect', resolve));
  return socket;
}

/** The first bytes of the response, or an empty string when the service closes the connection. */
function responseOn(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    socket.once('data', (chunk) => {
      resolve(chunk.toString());
    });
    socket.once('close', () => {
      resolve('');
    });
    socket.write(`GET /v1/nothing HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer ${context.key}\r\n\r\n`);
  });
}

describe('MAX_CONNECTIONS', () => {
  afterEach(() => {
    for (const socket of sockets.splice(0)) {
      socket.destroy();
    }
  });

  it('closes and counts connections beyond it, and those that are open go on', async () => {
    const dropped = await metric('petstore_connections_dropped_total');
    const opened = [await open(), await open(), await open()];
    expect(await responseOn(await open())).toBe('');
    for (const socket of opened) {
      expect(await responseOn(socket)).toMatch(/^HTTP\/1\.1 404 /);
    }
    expect(await metric('petstore_connections')).toBe(CONNECTIONS_MAX);
    expect(await metric('petstore_connections_dropped_total')).toBe(dropped + 1);
    opened[0]?.destroy();
    await waitFor(async () => (await metric('petstore_connections')) < CONNECTIONS_MAX, 'one is closed');
    expect(await responseOn(await open())).toMatch(/^HTTP\/1\.1 404 /);
  });

  it('doctor and the start of the service report a limit of open files that is too low', async () => {
    const problem = 'at most 400 open files, too few for MAX_CONNECTIONS=300: raise the limit (ulimit -n) to 500';
    const environment = { MAX_CONNECTIONS: '300', DATABASE_URL: 'postgresql://app@127.0.0.1:1/x', PORT: '1' };
    const { stdout } = await runProcess([...LIMITED, 'doctor'], environment);
    expect(stdout).toContain(`warning  open files           ${problem}\n`);
    // It may not listen on this port, or somebody else does.
    const service = await runProcess([...LIMITED, 'serve'], { ...environment, HOST: '192.0.2.1' });
    expect(service.stdout).toContain(`"${problem}"`);
  });
});
