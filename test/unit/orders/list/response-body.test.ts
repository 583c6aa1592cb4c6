import type { ServerResponse } from 'node:http';
import { PassThrough } from 'node:stream';
import { ResponseBody, ClientDisconnected } from '../../../../src/orders/list/response-body.js';

const STALL_MS = 1_000;
const CHUNK = Buffer.alloc(100, 'x');

/** A fake response: buffers a chunk until its client reads it. */
let response: PassThrough;
/** The connection: its bytes change when the client reads some without making room for another chunk. */
let socket: { bytesWritten: number; writableLength: number };

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask'] });
  response = new PassThrough({ highWaterMark: CHUNK.length });
  socket = { bytesWritten: 0, writableLength: 0 };
});
afterEach(() => {
  jest.useRealTimers();
  response.destroy();
});

function bodyOf(): ResponseBody {
  return new ResponseBody(Object.assign(response, { req: { socket } }) as unknown as ServerResponse, STALL_MS);
}

/** The state of a promise after the streams have processed their events. */
async function stateOf(promise: Promise<void>): Promise<string> {
  let state = 'pending';
  promise.then(
    () => (state = 'done'),
    (error: unknown) => (state = error instanceof ClientDisconnected ? 'disconnected' : String(error)),
  );
  for (let turn = 0; turn < 5; turn++) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  return state;
}

describe('ResponseBody', () => {
  it('write resolves when the client has taken all of it', async () => {
    const body = bodyOf();
    const first = body.write([CHUNK.subarray(1)]);
    expect(await stateOf(first)).toBe('done');
    const second = body.write([CHUNK]);
    second.catch(() => undefined);
    expect(await stateOf(second)).toBe('pending');
    response.read();
    expect(await stateOf(second)).toBe('done');
  });

  it('write rejects after the stall timeout when the client reads nothing', async () => {
    const body = bodyOf();
    const ready = body.write([CHUNK]);
    ready.catch(() => undefined);
    await jest.advanceTimersByTimeAsync(STALL_MS - 1);
    expect(await stateOf(ready)).toBe('pending');
    await jest.advanceTimersByTimeAsync(1);
    expect(await stateOf(ready)).toBe('disconnected');
  });

  it('write waits while the client reads some bytes within each stall timeout, even without room for a chunk', async () => {
    const body = bodyOf();
    const ready = body.write([CHUNK]);
    ready.catch(() => undefined);
    for (let read = 1; read <= 5; read++) {
      socket.bytesWritten = read;
      await jest.advanceTimersByTimeAsync(STALL_MS);
      expect(await stateOf(ready)).toBe('pending');
    }
    await jest.advanceTimersByTimeAsync(0.25 * STALL_MS);
    expect(await stateOf(ready)).toBe('disconnected');
  });

  it('write allows the whole stall timeout for each chunk', async () => {
    const body = bodyOf();
    for (let chunk = 0; chunk < 5; chunk++) {
      const ready = body.write([CHUNK]);
      ready.catch(() => undefined);
      jest.advanceTimersByTime(STALL_MS - 1);
      response.read();
      expect(await stateOf(ready)).toBe('done');
    }
  });

  it('write rejects at once when the client disconnects', async () => {
    const body = bodyOf();
    const ready = body.write([CHUNK]);
    ready.catch(() => undefined);
    response.destroy();
    expect(await stateOf(ready)).toBe('disconnected');
  });

  it('write rejects at once when the client is disconnected already', async () => {
    const body = bodyOf();
    response.destroy();
    await new Promise((resolve) => setImmediate(resolve));
    expect(await stateOf(body.write([CHUNK]))).toBe('disconnected');
  });

  it('end resolves when the client has received all pieces in order', async () => {
    const body = bodyOf();
    const received: Buffer[] = [];
    response.on('data', (chunk: Buffer) => received.push(chunk));
    await body.write([Buffer.from('['), CHUNK, Buffer.from(']')]);
    await body.end([Buffer.from('!')]);
    expect(Buffer.concat(received).toString()).toBe(`[${CHUNK.toString()}]!`);
  });

  it('end rejects at once when the client is disconnected', async () => {
    const body = bodyOf();
    body.write([CHUNK]).catch(() => undefined);
    response.destroy();
    await new Promise((resolve) => setImmediate(resolve));
    expect(await stateOf(body.end([]))).toBe('disconnected');
    expect(jest.getTimerCount()).toBe(0);
  });

  it('removes its timers and listeners', async () => {
    const listeners = (): number => response.listenerCount('close') + response.listenerCount('drain');
    const body = bodyOf();
    const before = listeners();
    for (let chunk = 0; chunk < 3; chunk++) {
      const ready = body.write([CHUNK]);
      ready.catch(() => undefined);
      response.read();
      await ready;
    }
    const stalled = body.write([CHUNK]);
    stalled.catch(() => undefined);
    await jest.advanceTimersByTimeAsync(1.25 * STALL_MS);
    expect(await stateOf(stalled)).toBe('disconnected');
    expect([jest.getTimerCount(), listeners()]).toEqual([0, before]);
  });
});
