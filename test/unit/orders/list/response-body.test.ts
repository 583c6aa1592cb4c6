import type { ServerResponse } from 'node:http';
import { PassThrough } from 'node:stream';
import { ResponseBody, ClientDisconnected } from '../../../../src/orders/list/response-body.js';

const STALL_MS = 1_000;
const PORTION = Buffer.alloc(100, 'x');

/** Stands in for a response: holds a portion until its client takes it. */
let response: PassThrough;
/** Changes while the client takes bytes that make no room for another portion yet. */
let progress: string;

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask'] });
  response = new PassThrough({ highWaterMark: PORTION.length });
  progress = '';
});
afterEach(() => {
  jest.useRealTimers();
  response.destroy();
});

function bodyOf(): ResponseBody {
  return new ResponseBody(response as unknown as ServerResponse, STALL_MS, () => Promise.resolve(progress));
}

/** What has become of a promise after the streams have had their turns. */
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
  it('is ready for another portion while the client has room', async () => {
    const body = bodyOf();
    expect(await stateOf(body.write([PORTION.subarray(1)]))).toBe('done');
  });

  it('is not ready until the client has taken the previous portion', async () => {
    const body = bodyOf();
    const ready = body.write([PORTION]);
    ready.catch(() => undefined);
    expect(await stateOf(ready)).toBe('pending');
    response.read();
    expect(await stateOf(ready)).toBe('done');
  });

  it('rejects when the client takes nothing for the stall timeout and at most a quarter of it more', async () => {
    const body = bodyOf();
    const ready = body.write([PORTION]);
    ready.catch(() => undefined);
    await jest.advanceTimersByTimeAsync(1.25 * STALL_MS - 1);
    expect(await stateOf(ready)).toBe('pending');
    await jest.advanceTimersByTimeAsync(1);
    expect(await stateOf(ready)).toBe('disconnected');
  });

  it('waits as long as the client takes any bytes within each stall timeout, also without room for a portion', async () => {
    const body = bodyOf();
    const ready = body.write([PORTION]);
    ready.catch(() => undefined);
    for (let taken = 0; taken < 5; taken++) {
      progress = String(taken);
      await jest.advanceTimersByTimeAsync(STALL_MS);
      expect(await stateOf(ready)).toBe('pending');
    }
    await jest.advanceTimersByTimeAsync(0.25 * STALL_MS);
    expect(await stateOf(ready)).toBe('disconnected');
  });

  it('gives a slow client the whole stall timeout for each portion', async () => {
    const body = bodyOf();
    for (let portion = 0; portion < 5; portion++) {
      const ready = body.write([PORTION]);
      ready.catch(() => undefined);
      jest.advanceTimersByTime(STALL_MS - 1);
      response.read();
      expect(await stateOf(ready)).toBe('done');
    }
  });

  it('rejects at once when the client disconnects during the wait', async () => {
    const body = bodyOf();
    const ready = body.write([PORTION]);
    ready.catch(() => undefined);
    response.destroy();
    expect(await stateOf(ready)).toBe('disconnected');
  });

  it('rejects at once when the client has disconnected before', async () => {
    const body = bodyOf();
    response.destroy();
    await new Promise((resolve) => setImmediate(resolve));
    expect(await stateOf(body.write([PORTION]))).toBe('disconnected');
  });

  it('ends when the client has taken all pieces, in their order', async () => {
    const body = bodyOf();
    const taken: Buffer[] = [];
    response.on('data', (chunk: Buffer) => taken.push(chunk));
    await body.write([Buffer.from('['), PORTION, Buffer.from(']')]);
    await body.end();
    expect(Buffer.concat(taken).toString()).toBe(`[${PORTION.toString()}]`);
  });

  it('reports pieces as written once the last of them is', async () => {
    const onWritten = jest.fn();
    const write = bodyOf().write([PORTION, PORTION], onWritten);
    expect(await stateOf(write)).toBe('pending');
    expect(onWritten).not.toHaveBeenCalled();
    response.resume();
    expect(await stateOf(write)).toBe('done');
    expect(onWritten).toHaveBeenCalledTimes(1);
  });

  it('rejects at once when the client disconnects before the end', async () => {
    const body = bodyOf();
    body.write([PORTION]).catch(() => undefined);
    response.destroy();
    await new Promise((resolve) => setImmediate(resolve));
    expect(await stateOf(body.end())).toBe('disconnected');
    expect(jest.getTimerCount()).toBe(0);
  });

  it('leaves neither timers nor listeners behind', async () => {
    const listeners = (): number => response.listenerCount('close') + response.listenerCount('drain');
    const body = bodyOf();
    const before = listeners();
    for (let portion = 0; portion < 3; portion++) {
      const ready = body.write([PORTION]);
      ready.catch(() => undefined);
      response.read();
      await ready;
    }
    const stalled = body.write([PORTION]);
    stalled.catch(() => undefined);
    await jest.advanceTimersByTimeAsync(1.25 * STALL_MS);
    expect(await stateOf(stalled)).toBe('disconnected');
    expect([jest.getTimerCount(), listeners()]).toEqual([0, before]);
  });
});
