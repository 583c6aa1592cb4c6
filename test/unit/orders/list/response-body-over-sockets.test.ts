import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { abortResponse } from '../../../../src/http/response.js';
import { ClientDisconnected, ResponseBody } from '../../../../src/orders/list/response-body.js';
import { waitFor } from '../../../helpers/wait-for.js';
import { parseResponses } from '../../../helpers/wire.js';

/** Paths, and the chunks of their bodies: each a list of pieces that are written together, the last with the end. */
const BODIES: Readonly<Record<string, readonly (readonly Buffer[])[]>> = {
  '/small': [pieces(20)],
  '/long': [...Array.from({ length: 100 }, () => pieces(60_000)), pieces(20)],
  '/many-writes': [...Array.from({ length: 400 }, () => pieces(5_000)), pieces(20)],
};

function pieces(bytes: number): readonly Buffer[] {
  return ['[', 'x'.repeat(bytes), ','].map((text) => Buffer.from(text));
}

const textOf = (path: string): string => Buffer.concat(BODIES[path]?.flat() ?? []).toString();

let server: Server;
/** How often the server has handed bytes of a response to the operating system. */
let systemCalls: number;

beforeAll(async () => {
  server = createServer((req, res) => {
    const body = new ResponseBody(res, 60_000);
    const chunks = BODIES[req.url ?? ''] ?? [];
    const write = async (): Promise<void> => {
      res.writeHead(200);
      for (const chunk of chunks.slice(0, -1)) {
        await body.write(chunk);
      }
      await body.end(chunks.at(-1) ?? []);
    };
    void write();
  });
  server.on('connection', (socket: Socket) => {
    const write = socket._write.bind(socket);
    const writev = socket._writev?.bind(socket);
    socket._write = (...args) => {
      systemCalls++;
      write(...args);
    };
    socket._writev = (...args) => {
      systemCalls++;
      writev?.(...args);
    };
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
});
afterAll(() => server.close());
beforeEach(() => {
  systemCalls = 0;
});

/** Sends pipelined requests and returns the bodies of the responses when the server has closed the connection. */
async function read(paths: readonly string[], { slowly }: { slowly: boolean }): Promise<string[]> {
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const received: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => {
    received.push(chunk);
    if (slowly) {
      // All other work of the process comes first, so that the buffers of the connection are full at times.
      socket.pause();
      setImmediate(() => setImmediate(() => socket.resume()));
    }
  });
  socket.write(
    paths
      .map((path, index) => {
        const connection = index === paths.length - 1 ? 'close' : 'keep-alive';
        return `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: ${connection}\r\n\r\n`;
      })
      .join(''),
  );
  await once(socket, 'close');
  return parseResponses(Buffer.concat(received), true, []).map(({ body }) => body);
}

describe('ResponseBody over a connection', () => {
  it.each([
    [['/small']],
    [['/long']],
    [['/many-writes']],
    [['/small', '/small', '/small']],
    [['/long', '/small', '/many-writes', '/small']],
  ])('delivers whole bodies to a fast and to a slow client: %j', async (paths) => {
    for (const slowly of [false, true]) {
      const bodies = await read(paths, { slowly });
      // Compared piecewise, because the difference of two long texts takes long to print.
      expect(bodies.map((body) => body.length)).toEqual(paths.map((path) => textOf(path).length));
      expect(bodies.every((body, index) => body === textOf(paths[index] ?? ''))).toBe(true);
    }
  });

  it('writes a body of several pieces with its headers and its end in one system call', async () => {
    expect(await read(['/small'], { slowly: false })).toEqual([textOf('/small')]);
    expect(systemCalls).toBe(1);
  });

  it('fails when it is cut while a response before it on the connection progresses', async () => {
    const responses: ServerResponse[] = [];
    const pipelined = createServer((_req, res) => responses.push(res)).listen(0, '127.0.0.1');
    await once(pipelined, 'listening');
    const client = connect((pipelined.address() as AddressInfo).port, '127.0.0.1').resume();
    client.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(2));
    await waitFor(() => responses.length === 2, 'both requests have arrived');
    const [first, second] = responses as [ServerResponse, ServerResponse];
    const progress = setInterval(() => first.write('x'), 10);
    const writing = new ResponseBody(second, 400).write([Buffer.alloc(1_000_000)]);
    abortResponse(second);
    await expect(writing).rejects.toThrow(ClientDisconnected);
    clearInterval(progress);
    client.destroy();
    pipelined.close();
  });
});
