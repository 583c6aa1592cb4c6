import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/**
 * @returns a free port of 127.0.0.1, below those that systems choose for `listen(0)` and for outgoing connections and those of
 * PostgresServer, one of which could take it before the test does, and above 10,080, which `fetch` refuses
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(10_081, 20_000);
    const server = createServer().listen(port, '127.0.0.1');
    const isFree = await new Promise((resolve) => {
      server.once('listening', () => resolve(true)).once('error', () => resolve(false));
    });
    if (isFree) {
      await new Promise((resolve) => server.close(resolve));
      return port;
    }
  }
}
