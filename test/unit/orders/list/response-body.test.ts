import type { ServerResponse } from 'node:http';
import { PassThrough } from 'node:stream';
import { ResponseBody, ClientDisconnected } from '../../../../src/orders/list/response-body.js';

const STALL_MS = 1_000;
const CHUNK = Buffer.alloc(100, 'x');

/** A fake response: buffers a chunk until its client reads it. */
let response: PassThrough;
/** Changes when the client reads bytes without making room for another chunk. */
let progress: string;

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask'] });
  response = new PassThrough({ highWaterMark: CHUNK.length });
  progress = '';
});
afterEach(() => {
  jest.useRealTimers();
  response.destroy();
});

function bodyOf(): ResponseBody {
  return new ResponseBody(response as unknown as ServerResponse, STALL_MS, () => Promise.resolve(progress));
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
  it('write resolves at once while there is room for another chunk', async () => {
    const body = bodyOf();
    expect(await stateOf(body.write([CHUNK.subarray(1)]))).toBe('done');
  });

  it('write resolves when the client has read the previous chunk', async () => {
    const body = bodyOf();
    const ready = body.write([CHUNK]);
    ready.catch(() => undefined);
    expect(await stateOf(ready)).toBe('pending');
    response.read();
    expect(await stateOf(ready)).toBe('done');
  });

  it('write rejects after 1.25 stall timeouts in which the client reads nothing', async () => {
    const body = bodyOf();
    const ready = body.write([CHUNK]);
    ready.catch(() => undefined);
    await jest.advanceTimersByTimeAsync(1.25 * STALL_MS - 1);
    expect(await stateOf(ready)).toBe('pending');
    await jest.advanceTimersByTimeAsync(1);
    expect(await stateOf(ready)).toBe('disconnected');
  });

  it('write waits while the client reads some bytes within each stall timeout, even without room for a chunk', async () => {
    const body = bodyOf();
    const ready = body.write([CHUNK]);
    ready.catch(() => undefined);
    for (let read = 0; read < 5; read++) {
      progress = String(read);
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
    await body.end();
    expect(Buffer.concat(received).toString()).toBe(`[${CHUNK.toString()}]`);
  });

  it('write calls onWritten once, after the last piece', async () => {
    const onWritten = jest.fn();
    const write = bodyOf().write([CHUNK, CHUNK], onWritten);
    expect(await stateOf(write)).toBe('pending');
    expect(onWritten).not.toHaveBeenCalled();
    response.resume();
    expect(await stateOf(write)).toBe('done');
    expect(onWritten).toHaveBeenCalledTimes(1);
  });

  it('end rejects at once when the client is disconnected', async () => {
    const body = bodyOf();
    body.write([CHUNK]).catch(() => undefined);
    response.destroy();
    await new Promise((resolve) => setImmediate(resolve));
    expect(await stateOf(body.end())).toBe('disconnected');
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
