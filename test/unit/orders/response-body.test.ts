import type { ServerResponse } from 'node:http';
import { PassThrough } from 'node:stream';
import { gunzipSync } from 'node:zlib';
import { ResponseBody, ClientDisconnected } from '../../../src/orders/response-body.js';

const STALL_MS = 1_000;
const PORTION = Buffer.alloc(100, 'x');

/** Stands in for a response: holds a portion until the reader at its other side takes it. */
let response: PassThrough;

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask'] });
  response = new PassThrough({ highWaterMark: PORTION.length });
});
afterEach(() => {
  jest.useRealTimers();
  response.destroy();
});

function bodyOf(gzip = false): ResponseBody {
  return new ResponseBody(response as unknown as ServerResponse, STALL_MS, gzip);
}

/** What has become of a promise after the streams have had their turns. */
async function stateOf(promise: Promise<void>): Promise<string> {
  let state = 'pending';
  promise.then(
    () => (state = 'done'),
    (error: unknown) => (state = error instanceof ClientDisconnected ? 'reader lost' : String(error)),
  );
  for (let turn = 0; turn < 5; turn++) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  return state;
}

describe('ResponseBody', () => {
  it('is ready for another portion while the reader has room', async () => {
    const body = bodyOf();
    body.write(PORTION.subarray(1));
    expect(await stateOf(body.ready())).toBe('done');
  });

  it('is not ready until the reader has taken what it was sent', async () => {
    const body = bodyOf();
    body.write(PORTION);
    const ready = body.ready();
    expect(await stateOf(ready)).toBe('pending');
    response.read();
    expect(await stateOf(ready)).toBe('done');
  });

  it('gives the reader up when it takes nothing for the given time, not before', async () => {
    const body = bodyOf();
    body.write(PORTION);
    const ready = body.ready();
    jest.advanceTimersByTime(STALL_MS - 1);
    expect(await stateOf(ready)).toBe('pending');
    jest.advanceTimersByTime(1);
    expect(await stateOf(ready)).toBe('reader lost');
  });

  it('gives a reader that goes on taking the whole time again for each portion', async () => {
    const body = bodyOf();
    for (let portion = 0; portion < 5; portion++) {
      body.write(PORTION);
      const ready = body.ready();
      jest.advanceTimersByTime(STALL_MS - 1);
      response.read();
      expect(await stateOf(ready)).toBe('done');
    }
  });

  it('gives the reader up at once when it goes away while it is waited for', async () => {
    const body = bodyOf();
    body.write(PORTION);
    const ready = body.ready();
    response.destroy();
    expect(await stateOf(ready)).toBe('reader lost');
  });

  it('gives the reader up at once when it has gone away before', async () => {
    const body = bodyOf();
    response.destroy();
    await new Promise((resolve) => setImmediate(resolve));
    expect(await stateOf(body.ready())).toBe('reader lost');
  });

  it.each([false, true])('ends when everything has been taken (compressed: %p)', async (gzip) => {
    const body = bodyOf(gzip);
    body.write(PORTION);
    const end = body.end();
    const taken: Buffer[] = [];
    response.on('data', (chunk: Buffer) => taken.push(chunk));
    await end;
    const bytes = Buffer.concat(taken);
    expect(gzip ? gunzipSync(bytes) : bytes).toEqual(PORTION);
  });

  it.each([false, true])(
    'gives the reader up at once when it goes away before the end (compressed: %p)',
    async (gzip) => {
      const body = bodyOf(gzip);
      body.write(PORTION);
      response.destroy();
      await new Promise((resolve) => setImmediate(resolve));
      expect(await stateOf(body.end())).toBe('reader lost');
      expect(jest.getTimerCount()).toBe(0);
    },
  );

  it('leaves neither timers nor listeners behind, however it went', async () => {
    const listeners = (): number => response.listenerCount('close') + response.listenerCount('drain');
    const body = bodyOf();
    const before = listeners();
    for (let portion = 0; portion < 3; portion++) {
      body.write(PORTION);
      const ready = body.ready();
      response.read();
      await ready;
    }
    body.write(PORTION);
    const stalled = body.ready();
    jest.advanceTimersByTime(STALL_MS);
    expect(await stateOf(stalled)).toBe('reader lost');
    expect([jest.getTimerCount(), listeners()]).toEqual([0, before]);
  });
});
