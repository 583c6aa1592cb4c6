import { connect, type Socket } from 'node:net';
import { insertOrder } from '../helpers/builders.js';
import { lockOrder } from '../helpers/lock-waits.js';
import { useServiceProcess } from '../helpers/service-process.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

const CONNECTIONS_MAX = 3;

const context = useServiceProcess({ MAX_CONNECTIONS: String(CONNECTIONS_MAX), CANCEL_LOCK_TIMEOUT_MS: '30000' });
const sockets: Socket[] = [];

async function metric(name: string): Promise<number> {
  return (await context.metrics()).sum(name);
}

/** @param address of the client, one of this host */
async function open(address: string, port = context.service.port): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', localAddress: address });
  sockets.push(socket);
  socket.on('error', () => undefined);
  await new Promise((resolve) => socket.once('connect', resolve));
  return socket;
}

/** The first bytes of the response, or an empty string when the service closes the connection. */
function responseOn(socket: Socket, request = 'GET /v1/nothing'): Promise<string> {
  return new Promise((resolve) => {
    socket.once('data', (chunk) => {
      resolve(chunk.toString());
    });
    socket.once('close', () => {
      resolve('');
    });
    socket.write(`${request} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer ${context.key}\r\n\r\n`);
  });
}

describe('MAX_CONNECTIONS', () => {
  beforeEach(async () => {
    await waitFor(async () => (await metric('petstore_connections')) === 0, 'no connection is open');
  });
  afterEach(() => {
    for (const socket of sockets.splice(0)) {
      socket.destroy();
    }
  });

  it('closes the longest idle connection of the address with the most for a new one, and counts it', async () => {
    const [only, first, second] = [await open('127.0.0.3'), await open('127.0.0.2'), await open('127.0.0.2')];
    // Now the second has been idle for longer than the first.
    expect(await responseOn(first)).toMatch(/^HTTP\/1\.1 404 /);
    const dropped = await metric('petstore_connections_dropped_total');
    const closed = new Promise((resolve) => second.once('close', resolve));
    const latest = await open('127.0.0.4');
    await closed;
    for (const socket of [latest, only, first]) {
      expect(await responseOn(socket)).toMatch(/^HTTP\/1\.1 404 /);
    }
    expect(await metric('petstore_connections_dropped_total')).toBe(dropped + 1);
  });

  it('closes no connection with a pending response, nor an idle one of an address with fewer connections', async () => {
    const orderId = await insertOrder(context.database.db);
    const release = await lockOrder(context.database.db, orderId);
    const busy = [await open('127.0.0.2'), await open('127.0.0.2')];
    const responses = busy.map((socket) => responseOn(socket, `DELETE /v1/store/orders/${orderId}`));
    const idle = await open('127.0.0.3');
    await waitFor(async () => (await metric('petstore_connections')) === CONNECTIONS_MAX, 'the connections are open');
    const dropped = await metric('petstore_connections_dropped_total');
    expect(await responseOn(await open('127.0.0.2'))).toBe('');
    expect(await metric('petstore_connections_dropped_total')).toBe(dropped + 1);
    await release();
    expect((await Promise.all(responses)).map((response) => response.slice(0, 12)).sort()).toEqual([
      'HTTP/1.1 204',
      'HTTP/1.1 409',
    ]);
    expect(await responseOn(idle)).toMatch(/^HTTP\/1\.1 404 /);
  });

  /** Sends requests for more than the buffers of the kernel hold, and reads none of the responses. */
  async function untilStuck(sockets: readonly Socket[], accepted: readonly Socket[]): Promise<void> {
    for (const socket of sockets) {
      socket.pause().write('GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: test\r\n\r\n'.repeat(16));
    }
    let taken: number[] = [];
    await waitFor(() => {
      const before = taken;
      taken = accepted.filter(({ writableLength }) => writableLength > 0).map((socket) => socket.bytesWritten);
      return taken.length === sockets.length && taken.join() === before.join();
    }, 'the responses are stuck');
  }

  it('closes a connection whose client does not take its responses, of the address with the most', async () => {
    await withLimit(CONNECTIONS_MAX, async (inProcess, accepted) => {
      const few = await open('127.0.0.3', inProcess.port);
      await untilStuck([await open('127.0.0.2', inProcess.port), await open('127.0.0.2', inProcess.port)], accepted);
      for (const socket of [await open('127.0.0.4', inProcess.port), few]) {
        expect(await responseOn(socket)).toMatch(/^HTTP\/1\.1 404 /);
      }
      expect(accepted.filter(({ destroyed }) => destroyed)).toHaveLength(1);
    });
  });

  it('closes an idle connection before one whose client does not take its responses', async () => {
    await withLimit(CONNECTIONS_MAX, async ({ port }, accepted) => {
      const stuck = await open('127.0.0.2', port);
      await open('127.0.0.3', port);
      const idle = await open('127.0.0.2', port);
      await untilStuck([stuck], accepted);
      // Idle for less time than the other has been stuck.
      expect(await responseOn(idle)).toMatch(/^HTTP\/1\.1 404 /);
      await open('127.0.0.4', port);
      await waitFor(() => accepted.some(({ destroyed }) => destroyed), 'a connection is closed');
      expect(accepted.map(({ destroyed }) => destroyed)).toEqual([false, false, true, false]);
    });
  });

  it('does not close a connection that was used after a search had found it', async () => {
    await withLimit(96, async ({ port }, accepted) => {
      const all: Socket[] = [];
      for (let count = 0; count < 96; count++) {
        all.push(await open('127.0.0.2', port));
      }
      const closed = (): number[] => accepted.flatMap(({ destroyed }, index) => (destroyed ? [index] : []));
      await open('127.0.0.2', port);
      await waitFor(() => closed().join() === '0', 'the longest idle connection is closed');
      expect(await responseOn(all[1]!)).toMatch(/^HTTP\/1\.1 404 /);
      await open('127.0.0.2', port);
      await waitFor(() => closed().length === 2, 'another one is closed');
      expect(closed()).toEqual([0, 2]);
    });
  });
});

describe('a connection with many pipelined requests', () => {
  it('has a few of them handled in one turn of the event loop, and in the end all', async () => {
    await withLimit(CONNECTIONS_MAX, async ({ app, port }) => {
      let requests = 0;
      const inFirstTurn = new Promise<number>((resolve) => {
        app.getHttpServer().on('request', () => {
          if (++requests === 1) {
            setImmediate(() => {
              resolve(requests);
            });
          }
        });
      });
      const socket = await open('127.0.0.2', port);
      socket.resume().write('GET /v1/x HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(1_000));
      expect(await inFirstTurn).toBeLessThan(200);
      await waitFor(() => requests === 1_000, 'all requests are handled');
    });
  });
});

/** @param use with the connections that the service has accepted, in order */
async function withLimit(max: number, use: (service: TestService, accepted: Socket[]) => Promise<void>): Promise<void> {
  const environment = { MAX_CONNECTIONS: String(max) };
  const service = await startTestService({ environment, database: context.database });
  const accepted: Socket[] = [];
  service.app.getHttpServer().on('connection', (socket: Socket) => accepted.push(socket));
  try {
    await use(service, accepted);
  } finally {
    await service.stop();
  }
}
