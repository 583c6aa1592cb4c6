import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { abortResponse } from '../../../../src/http/response.js';
import { ClientDisconnected, sendBody, type SendOptions } from '../../../../src/orders/list/send-body.js';
import { listen } from '../../../helpers/listen.js';
import { waitFor } from '../../../helpers/wait-for.js';
import { parseResponses } from '../../../helpers/wire.js';
import { replaceMonotonicClock } from '../../../helpers/monotonic-clock.js';

const STALL_MS = 1_000;
const PIECE = Buffer.alloc(1_024, 'x');
/** More than the buffers of both ends of a connection hold. */
const LARGE = Buffer.alloc(32 * 1_048_576, 'y');

/** Bodies, by the bytes of their parts. */
const SMALL = [20, 30];
const LONG = [...Array<number>(60).fill(60_000), 20];
const MANY_WRITES = Array<number>(100).fill(70_000);

const textOf = (body: readonly number[]): string => 'x'.repeat(body.reduce((sum, bytes) => sum + bytes, 0));
const partsOf = (body: readonly number[]): Buffer[] => body.map((bytes) => Buffer.alloc(bytes, 'x'));

let server: Server;
let client: Socket;
let responses: ServerResponse[];
/** How often the server has handed bytes of a response to the operating system. */
let systemCalls: number;

beforeEach(async () => {
  [responses, systemCalls] = [[], 0];
  server = createServer((_req, res) => responses.push(res));
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
  client = connect(await listen(server), '127.0.0.1');
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

const begin = (): Promise<void> => Promise.resolve();

/** Sends a body as the response to one of the requests, which it aborts when that fails. @returns the bytes that were sent */
async function send(
  index: number,
  body: Iterable<Buffer> | AsyncIterable<Buffer>,
  options: Partial<SendOptions> = {},
): Promise<number> {
  let sent = 0;
  const response = responses[index]!;
  try {
    await sendBody(response, body, { stallMs: STALL_MS, begin, onSent: (bytes) => (sent += bytes), ...options });
  } catch (error) {
    abortResponse(response);
    throw error;
  }
  return sent;
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
  const lengths = await Promise.all(bodies.map((body, index) => send(index, partsOf(body))));
  expect(lengths).toEqual(bodies.map((body) => textOf(body).length));
  const parsed = (): ReturnType<typeof parseResponses> => parseResponses(Buffer.concat(received), false, []);
  await waitFor(() => parsed().length === bodies.length, 'all bodies have arrived');
  return parsed().map(({ body }) => body);
}

describe('a body', () => {
  it.each<[string, ...number[][]]>([
    ['no parts', []],
    ['a part that is sent before the end', [70_000]],
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

  it('of several short parts is written with its headers and its end in one system call', async () => {
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
    await send(0, partsOf(MANY_WRITES));
    clearImmediate(running);
    expect(turns).toBeGreaterThanOrEqual(MANY_WRITES.length - 1);
  });

  it('allows a client the whole stall timeout for each write, and not more', async () => {
    await request();
    client.pause();
    let asked = 0;
    const body = function* (): Generator<Buffer> {
      for (; asked < 4; asked++) {
        // Before the client takes anything of it.
        client.pause();
        yield LARGE;
      }
    };
    const outcome = outcomeOf(send(0, body()));
    for (let taken = 1; taken <= 3; taken++) {
      await new Promise((resolve) => setImmediate(resolve));
      await jest.advanceTimersByTimeAsync(STALL_MS - 1);
      expect([outcome.state, asked]).toEqual(['pending', taken - 1]);
      client.resume();
      await waitFor(() => asked === taken, 'the client has taken a part');
    }
    await jest.advanceTimersByTimeAsync(1.5 * STALL_MS);
    expect(outcome.state).toBe('disconnected');
  });

  it('waits for its client no longer in all than it may, although the client takes something of each write in time', async () => {
    await request();
    client.pause();
    let waitedMs = 0;
    replaceMonotonicClock(() => waitedMs);
    let asked = 0;
    const body = function* (): Generator<Buffer> {
      for (; asked < 9; asked++) {
        client.pause();
        yield LARGE;
      }
    };
    const outcome = outcomeOf(send(0, body(), { waitMaxMs: 2.5 * STALL_MS }));
    for (let taken = 1; taken <= 2; taken++) {
      await new Promise((resolve) => setImmediate(resolve));
      waitedMs += STALL_MS;
      client.resume();
      await waitFor(() => asked === taken, 'the client has taken a part');
    }
    await new Promise((resolve) => setImmediate(resolve));
    await jest.advanceTimersByTimeAsync(0.5 * STALL_MS);
    expect(outcome.state).toBe('disconnected');
    jest.restoreAllMocks();
  });

  it('asks for the next part when nothing of a large one can be sent any more, and not at all after a failure', async () => {
    await request();
    let asked = 0;
    const body = function* (): Generator<Buffer> {
      for (; asked < 2; asked++) {
        yield LARGE;
      }
    };
    const outcome = outcomeOf(send(0, body()));
    await new Promise((resolve) => setImmediate(resolve));
    await jest.advanceTimersByTimeAsync(1.25 * STALL_MS);
    expect([outcome.state, asked, responses[0]!.req.socket.destroyed]).toEqual(['disconnected', 0, true]);
  });

  it.each([
    [0, PIECE],
    [1, LARGE],
  ])('fails with the error of its source, begins %d responses before it, and leaves no timer', async (begun, part) => {
    client.resume();
    await request();
    const body = function* (): Generator<Buffer> {
      yield part;
      yield part;
      throw new Error('no more');
    };
    const heads: unknown[] = [];
    const writeHead = (): Promise<void> => Promise.resolve(void heads.push(responses[0]!.writeHead(200)));
    await expect(send(0, body(), { begin: writeHead })).rejects.toThrow('no more');
    expect([heads.length, jest.getTimerCount()]).toEqual([begun, 0]);
  });

  it('leaves no timer and no listener when it has been sent', async () => {
    await request();
    client.resume();
    const [response] = responses as [ServerResponse];
    const before = response.listenerCount('close');
    await send(0, partsOf(MANY_WRITES));
    expect([jest.getTimerCount(), response.listenerCount('close')]).toEqual([0, before]);
  });

  it('fails at once when the client disconnects or has disconnected, and leaves no timer and no listener', async () => {
    await request();
    const [response] = responses as [ServerResponse];
    const listeners = (): number => response.listenerCount('close');
    const before = listeners();
    const sending = send(0, [LARGE]);
    client.destroy();
    await expect(sending).rejects.toThrow(ClientDisconnected);
    await expect(send(0, [LARGE])).rejects.toThrow(ClientDisconnected);
    await expect(send(0, [])).rejects.toThrow(ClientDisconnected);
    expect([jest.getTimerCount(), listeners()]).toEqual([0, before]);
  });
});

describe('a body behind another response of its connection', () => {
  it('is not stalled while the client reads the other one, and is sent after it', async () => {
    await request(2);
    const sending = send(1, [LARGE]);
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
    const outcome = outcomeOf(send(1, [LARGE]));
    await new Promise((resolve) => setImmediate(resolve));
    await jest.advanceTimersByTimeAsync(1.25 * STALL_MS);
    expect(outcome.state).toBe('disconnected');
    responses[0]!.end();
    await once(client.resume(), 'close');
  });
});
