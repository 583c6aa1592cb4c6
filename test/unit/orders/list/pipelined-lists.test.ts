import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { ClientDisconnected, ResponseBody } from '../../../../src/orders/list/response-body.js';

const STALL_MS = 1_000;
const PIECE = Buffer.alloc(1_024, 'x');
/** More than a response takes before it asks to wait. */
const LARGE = Buffer.alloc(1_048_576, 'y');

let server: Server;
let client: Socket;

beforeEach(async () => {
  server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask'] });
});
afterEach(() => {
  jest.useRealTimers();
  client.destroy();
  server.closeAllConnections();
  server.close();
});

/** Sends two requests at once. */
async function pipelined(): Promise<[ServerResponse, ServerResponse]> {
  const responses: ServerResponse[] = [];
  const both = new Promise<[ServerResponse, ServerResponse]>((resolve) => {
    server.on('request', (_req, res: ServerResponse) => {
      responses.push(res);
      const [earlier, later] = responses;
      if (earlier !== undefined && later !== undefined) {
        resolve([earlier, later]);
      }
    });
  });
  client.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(2));
  return both;
}

describe('a list behind another response of its connection', () => {
  it('is not stalled while the client reads the other one, and is written after it', async () => {
    const [earlier, later] = await pipelined();
    let outcome = 'pending';
    const written = new ResponseBody(later, STALL_MS).write([LARGE]).then(
      () => (outcome = 'written'),
      (error: unknown) => (outcome = error instanceof ClientDisconnected ? 'disconnected' : String(error)),
    );
    for (let timeout = 0; timeout < 5; timeout++) {
      earlier.write(PIECE);
      await once(client, 'data');
      await jest.advanceTimersByTimeAsync(STALL_MS);
      expect(outcome).toBe('pending');
    }
    client.resume();
    earlier.end();
    await written;
    expect(outcome).toBe('written');
  });
});
