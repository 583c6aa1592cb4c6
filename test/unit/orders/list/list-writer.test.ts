import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { randomBytes } from 'node:crypto';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { deflate } from '../../../../src/orders/list/gzip.js';
import { ClientDisconnected, ListWriter } from '../../../../src/orders/list/list-writer.js';
import { CachedChunk, type ListChunk } from '../../../../src/orders/list/list-chunk.js';
import { waitFor } from '../../../helpers/wait-for.js';
import { parseResponses } from '../../../helpers/wire.js';

const STALL_MS = 1_000;
const PIECE = Buffer.alloc(1_024, 'x');
/** More than the buffers of both ends of a connection hold. */
const LARGE = 'y'.repeat(32 * 1_048_576);

/** Bodies, by the bytes of their chunks. */
const SMALL = [20, 30];
const LONG = [...Array<number>(60).fill(60_000), 20];
const MANY_WRITES = Array<number>(100).fill(70_000);

const textOf = (body: readonly number[]): string => `[${body.map((bytes) => 'x'.repeat(bytes)).join(',')}]`;

const released = jest.fn();

function plainChunk(text: string): ListChunk {
  return {
    plain: () => Promise.resolve(Buffer.from(text)),
    deflated: () => deflate(Buffer.from(text)),
    release: () => {
      released(text.length);
    },
  };
}

let server: Server;
let client: Socket;
let responses: ServerResponse[];
/** How often the server has handed bytes of a response to the operating system. */
let systemCalls: number;

beforeEach(async () => {
  [responses, systemCalls] = [[], 0];
  released.mockClear();
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

/** Sends a list as the response to one of the requests. */
function send(index: number, chunks: Parameters<ListWriter['send']>[0]): Promise<number> {
  return new ListWriter(responses[index]!, false, STALL_MS).send(chunks);
}

/** Shows how a list has ended. */
function outcomeOf(sending: Promise<unknown>): { readonly state: string } {
  const outcome = { state: 'pending' };
  sending.then(
    () => (outcome.state = 'sent'),
    (error: unknown) => (outcome.state = error instanceof ClientDisconnected ? 'disconnected' : String(error)),
  );
  return outcome;
}

/** Responds to pipelined requests with these bodies, to a client that reads at once or slowly. */
async function delivered(bodies: readonly (readonly number[])[], { slowly }: { slowly: boolean }): Promise<string[]> {
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
  const lengths = await Promise.all(
    bodies.map((body, index) =>
      send(
        index,
        body.map((bytes) => plainChunk('x'.repeat(bytes))),
      ),
    ),
  );
  expect(lengths).toEqual(bodies.map((body) => textOf(body).length));
  const parsed = (): ReturnType<typeof parseResponses> => parseResponses(Buffer.concat(received), false, []);
  await waitFor(() => parsed().length === bodies.length, 'all bodies have arrived');
  return parsed().map(({ body }) => body);
}

describe('the body of a list', () => {
  it.each<[string, ...number[][]]>([
    ['no chunks', []],
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
    expect(released).toHaveBeenCalledTimes(2 * bodies.flat().length);
  });

  it('of several chunks that are short is written with its headers and its end in one system call', async () => {
    expect(await delivered([SMALL], { slowly: false })).toEqual([textOf(SMALL)]);
    expect(systemCalls).toBe(1);
  });

  it('of many writes lets others go on between them, also while the operating system takes everything', async () => {
    client.resume();
    await request();
    let turns = 0;
    const count = (): void => {
      turns++;
      running = setImmediate(count);
    };
    let running = setImmediate(count);
    await send(
      0,
      MANY_WRITES.map((bytes) => plainChunk('x'.repeat(bytes))),
    );
    clearImmediate(running);
    expect(turns).toBeGreaterThanOrEqual(MANY_WRITES.length - 1);
  });

  it('frees what it decompresses once that is sent, and leaves the chunks of other lists as they are', async () => {
    const plain = `"${randomBytes(150_000).toString('base64')}"`;
    const chunks = [await deflate(Buffer.from(plain)), await deflate(Buffer.from(plain))];
    const before = chunks.map(({ deflated }) => Buffer.from(deflated));
    const inflated: Buffer[] = [];
    client.resume();
    await request();
    const cached = chunks.map((chunk) => {
      const list = new CachedChunk(chunk);
      const read = list.plain.bind(list);
      list.plain = async () => {
        inflated.push(await read());
        return inflated.at(-1)!;
      };
      return list;
    });
    await send(0, cached);
    const isFreed = 'transfer' in ArrayBuffer.prototype;
    expect(inflated.map(({ length }) => length)).toEqual(chunks.map(() => (isFreed ? 0 : plain.length)));
    expect(chunks.map(({ deflated }, index) => deflated.equals(before[index]!))).toEqual([true, true]);
  });

  it('allows a client the whole stall timeout for each write, and not more', async () => {
    await request();
    client.pause();
    let chunks = 0;
    const outcome = outcomeOf(
      send(
        0,
        Array.from({ length: 4 }, () => ({
          ...plainChunk(LARGE),
          // Before the client takes anything of the next one.
          release: () => {
            chunks++;
            client.pause();
          },
        })),
      ),
    );
    for (let taken = 1; taken <= 3; taken++) {
      await new Promise((resolve) => setImmediate(resolve));
      await jest.advanceTimersByTimeAsync(STALL_MS - 1);
      expect([outcome.state, chunks]).toEqual(['pending', taken - 1]);
      client.resume();
      await waitFor(() => chunks === taken, 'the client has taken a chunk');
    }
    await jest.advanceTimersByTimeAsync(1.5 * STALL_MS);
    expect(outcome.state).toBe('disconnected');
  });

  it('gives the memory of a chunk back only when nothing of it can be sent any more', async () => {
    await request();
    const { socket } = responses[0]!.req;
    const release = (): void => {
      released(socket.destroyed);
    };
    const outcome = outcomeOf(send(0, [{ ...plainChunk(LARGE), release }]));
    await new Promise((resolve) => setImmediate(resolve));
    await jest.advanceTimersByTimeAsync(1.25 * STALL_MS);
    expect(outcome.state).toBe('disconnected');
    expect(released.mock.calls).toEqual([[true]]);
  });

  it('leaves no timer and no listener when it has been sent', async () => {
    await request();
    client.resume();
    const [response] = responses as [ServerResponse];
    const before = response.listenerCount('close');
    await send(
      0,
      MANY_WRITES.map((bytes) => plainChunk('x'.repeat(bytes))),
    );
    expect([jest.getTimerCount(), response.listenerCount('close')]).toEqual([0, before]);
  });

  it('fails at once when the client disconnects or has disconnected, and leaves no timer and no listener', async () => {
    await request();
    const [response] = responses as [ServerResponse];
    const listeners = (): number => response.listenerCount('close');
    const before = listeners();
    const sending = send(0, [plainChunk(LARGE)]);
    client.destroy();
    await expect(sending).rejects.toThrow(ClientDisconnected);
    await expect(send(0, [plainChunk(LARGE)])).rejects.toThrow(ClientDisconnected);
    await expect(send(0, [])).rejects.toThrow(ClientDisconnected);
    expect([jest.getTimerCount(), listeners()]).toEqual([0, before]);
    // Also of what could not be written.
    expect(released).toHaveBeenCalledTimes(2);
  });
});

describe('the body of a list behind another response of its connection', () => {
  it('is not stalled while the client reads the other one, and is sent after it', async () => {
    await request(2);
    const sending = send(1, [plainChunk(LARGE)]);
    const outcome = outcomeOf(sending);
    for (let timeout = 0; timeout < 5; timeout++) {
      responses[0]!.write(PIECE);
      await once(client, 'data');
      await jest.advanceTimersByTimeAsync(STALL_MS);
      expect(outcome.state).toBe('pending');
    }
    client.resume();
    responses[0]!.end();
    await sending;
  });

  it('fails when nothing of either is sent for the stall timeout', async () => {
    await request(2);
    const outcome = outcomeOf(send(1, [plainChunk(LARGE)]));
    await new Promise((resolve) => setImmediate(resolve));
    await jest.advanceTimersByTimeAsync(1.25 * STALL_MS);
    expect(outcome.state).toBe('disconnected');
    // Node still holds it.
    expect(released).not.toHaveBeenCalled();
    responses[0]!.end();
    await once(client.resume(), 'close');
  });
});
