import { createServer } from 'node:net';

/** @returns a free port of 127.0.0.1, at most `max` */
export async function freePort(max = 65_535): Promise<number> {
  for (;;) {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    await new Promise((resolve) => server.close(resolve));
    if (port <= max) {
      return port;
    }
  }
}
