import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { abortResponse } from '../../../../src/http/response.js';
import { ClientDisconnected, ResponseBody } from '../../../../src/orders/list/response-body.js';
import { waitFor } from '../../../helpers/wait-for.js';
import { parseResponses } from '../../../helpers/wire.js';

const STALL_MS = 1_000;
const PIECE = Buffer.alloc(1_024, 'x');
/** More than the buffers of both ends of a connection hold. */
const LARGE = Buffer.alloc(32 * 1_048_576, 'y');

/** Chunks of bodies: each a list of pieces that are written together, the last with the end. */
const SMALL = [pieces(20)];
const LONG = [...Array.from({ length: 100 }, () => pieces(60_000)), pieces(20)];
const MANY_WRITES = [...Array.from({ length: 400 }, () => pieces(5_000)), pieces(20)];

type Body = readonly (readonly Buffer[])[];

function pieces(bytes: number): readonly Buffer[] {
  return ['[', 'x'.repeat(bytes), ','].map((text) => Buffer.from(text));
}

const textOf = (body: Body): string => Buffer.concat(body.flat()).toString();

let server: Server;
let client: Socket;
let responses: ServerResponse[];
/** How often the server has handed bytes of a response to the operating system. */
let systemCalls: number;

beforeEach(async () => {
  [responses, systemCalls] = [[], 0];
  server = createServer((_req, res) => responses.push(res)).listen(0, '127.0.0.1');
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
  await once(server, 'listening');
  client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask', 'performance'] });
});
afterEach(() => {
  jest.useRealTimers();
  client.destroy();
  server.closeAllConnections();
  server.close();
});

/** Sends requests at once. */
async function request(count = 1): Promise<void> {
  client.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(count));
  await waitFor(() => responses.length === count, 'the requests have arrived');
}

const bodyOf = (index: number): ResponseBody => new ResponseBody(responses[index]!, STALL_MS);

/** Shows how a write has ended. */
function outcomeOf(writing: Promise<void>): { readonly state: string } {
  const outcome = { state: 'pending' };
  writing.then(
    () => (outcome.state = 'written'),
    (error: unknown) => (outcome.state = error instanceof ClientDisconnected ? 'disconnected' : String(error)),
  );
  return outcome;
}

/** Answers pipelined requests with these bodies, to a client that reads at once or slowly. */
async function delivered(bodies: readonly Body[], { slowly }: { slowly: boolean }): Promise<string[]> {
  const received: Buffer[] = [];
  client.on('data', (chunk: Buffer) => {
    received.push(chunk);
    if (slowly) {
      // All other work of the process comes first, so that the buffers of the connection are full at times.
      client.pause();
      setImmediate(() => setImmediate(() => client.resume()));
    }
  });
  await request(bodies.length);
  await Promise.all(
    bodies.map(async (chunks, index) => {
      const body = bodyOf(index);
      for (const chunk of chunks.slice(0, -1)) {
        await body.write(chunk);
      }
      await body.end(chunks.at(-1)!);
    }),
  );
  const parsed = (): ReturnType<typeof parseResponses> => parseResponses(Buffer.concat(received), false, []);
  await waitFor(() => parsed().length === bodies.length, 'all bodies have arrived');
  return parsed().map(({ body }) => body);
}

describe('ResponseBody', () => {
  it.each<[string, ...Body[]]>([
    ['a small body', SMALL],
    ['a long body', LONG],
    ['a body of many writes', MANY_WRITES],
    ['pipelined small bodies', SMALL, SMALL, SMALL],
    ['pipelined bodies of all kinds', LONG, SMALL, MANY_WRITES, SMALL],
  ])('delivers %s to a fast and to a slow client', async (_what, ...bodies) => {
    for (const slowly of [false, true]) {
      responses = [];
      client.removeAllListeners('data');
      // Compared as booleans, because the difference of two long texts takes long to print.
      const texts = await delivered(bodies, { slowly });
      expect(texts.map((text, index) => text === textOf(bodies[index]!))).toEqual(bodies.map(() => true));
    }
  });

  it('writes a body of several pieces with its headers and its end in one system call', async () => {
    expect(await delivered([SMALL], { slowly: false })).toEqual([textOf(SMALL)]);
    expect(systemCalls).toBe(1);
  });

  it('allows a client the whole stall timeout for each write, and not more', async () => {
    await request();
    const body = bodyOf(0);
    for (let chunk = 0; chunk < 3; chunk++) {
      client.pause();
      const writing = body.write([LARGE]);
      const outcome = outcomeOf(writing);
      await jest.advanceTimersByTimeAsync(STALL_MS - 1);
      expect(outcome.state).toBe('pending');
      client.resume();
      await writing;
    }
    client.pause();
    const outcome = outcomeOf(body.write([LARGE]));
    await jest.advanceTimersByTimeAsync(1.25 * STALL_MS);
    expect(outcome.state).toBe('disconnected');
  });

  it('fails at once when the client disconnects or has disconnected, and leaves no timer and no listener', async () => {
    await request();
    const [response] = responses as [ServerResponse];
    const listeners = (): number => response.listenerCount('close');
    const before = listeners();
    await bodyOf(0).write([PIECE]);
    expect(listeners()).toBe(before);
    const writing = bodyOf(0).write([LARGE]);
    client.destroy();
    await expect(writing).rejects.toThrow(ClientDisconnected);
    await expect(bodyOf(0).write([PIECE])).rejects.toThrow(ClientDisconnected);
    await expect(bodyOf(0).end([])).rejects.toThrow(ClientDisconnected);
    expect([jest.getTimerCount(), listeners()]).toEqual([0, before]);
  });
});

describe('ResponseBody behind another response of its connection', () => {
  it('is not stalled while the client reads the other one, and is written after it', async () => {
    await request(2);
    const writing = bodyOf(1).write([LARGE]);
    const outcome = outcomeOf(writing);
    for (let timeout = 0; timeout < 5; timeout++) {
      responses[0]!.write(PIECE);
      await once(client, 'data');
      await jest.advanceTimersByTimeAsync(STALL_MS);
      expect(outcome.state).toBe('pending');
    }
    client.resume();
    responses[0]!.end();
    await writing;
    expect(outcome.state).toBe('written');
  });

  it('fails when it is cut while the other one progresses', async () => {
    await request(2);
    client.resume();
    const outcome = outcomeOf(bodyOf(1).write([LARGE]));
    abortResponse(responses[1]!);
    for (let check = 0; check < 4 && outcome.state === 'pending'; check++) {
      responses[0]!.write(PIECE);
      await jest.advanceTimersByTimeAsync(STALL_MS / 4);
    }
    expect(outcome.state).toBe('disconnected');
  });
});
