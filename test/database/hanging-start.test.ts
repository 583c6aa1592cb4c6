import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { CLI } from '../helpers/build.js';

describe('petstore serve', () => {
  it('ends on SIGTERM while a database that accepts connections does not respond', async () => {
    const sockets: Socket[] = [];
    const server = createServer((socket) => sockets.push(socket.on('error', () => undefined)));
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const { port } = server.address() as AddressInfo;
    const service = spawn(process.execPath, [CLI, 'serve'], {
      env: {
        PATH: process.env.PATH,
        DATABASE_URL: `postgresql://app@127.0.0.1:${port}/x`,
        PORT: '0',
        METRICS_PORT: '0',
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const output = Promise.all([text(service.stdout), text(service.stderr)]);
    const exited = once(service, 'exit');
    await once(server, 'connection');
    service.kill('SIGTERM');
    expect(await exited).toEqual([0, null]);
    expect(await output).toEqual(['', '']);
    // The one of the check: nothing else has been tried.
    expect(sockets).toHaveLength(1);
    server.close();
  });
});
