import type { ServerResponse } from 'node:http';
import { PassThrough } from 'node:stream';
import { gunzipSync } from 'node:zlib';
import { ResponseBody, ClientDisconnected } from '../../../src/orders/response-body.js';

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

function bodyOf(gzip = false): ResponseBody {
  return new ResponseBody(response as unknown as ServerResponse, STALL_MS, gzip, () => Promise.resolve(progress));
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
    body.write(PORTION.subarray(1));
    expect(await stateOf(body.ready())).toBe('done');
  });

  it('is not ready until the client has taken the previous portion', async () => {
    const body = bodyOf();
    body.write(PORTION);
    const ready = body.ready();
    expect(await stateOf(ready)).toBe('pending');
    response.read();
    expect(await stateOf(ready)).toBe('done');
  });

  it('rejects when the client takes nothing for the stall timeout and at most a quarter of it more', async () => {
    const body = bodyOf();
    body.write(PORTION);
    const ready = body.ready();
    await jest.advanceTimersByTimeAsync(1.25 * STALL_MS - 1);
    expect(await stateOf(ready)).toBe('pending');
    await jest.advanceTimersByTimeAsync(1);
    expect(await stateOf(ready)).toBe('disconnected');
  });

  it('waits as long as the client takes any bytes within each stall timeout, also without room for a portion', async () => {
    const body = bodyOf();
    body.write(PORTION);
    const ready = body.ready();
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
      body.write(PORTION);
      const ready = body.ready();
      jest.advanceTimersByTime(STALL_MS - 1);
      response.read();
      expect(await stateOf(ready)).toBe('done');
    }
  });

  it('rejects at once when the client disconnects during the wait', async () => {
    const body = bodyOf();
    body.write(PORTION);
    const ready = body.ready();
    response.destroy();
    expect(await stateOf(ready)).toBe('disconnected');
  });

  it('rejects at once when the client has disconnected before', async () => {
    const body = bodyOf();
    response.destroy();
    await new Promise((resolve) => setImmediate(resolve));
    expect(await stateOf(body.ready())).toBe('disconnected');
  });

  it.each([false, true])('ends when the client has taken everything (compressed: %p)', async (gzip) => {
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
    'rejects at once when the client disconnects before the end (compressed: %p)',
    async (gzip) => {
      const body = bodyOf(gzip);
      body.write(PORTION);
      response.destroy();
      await new Promise((resolve) => setImmediate(resolve));
      expect(await stateOf(body.end())).toBe('disconnected');
      expect(jest.getTimerCount()).toBe(0);
    },
  );

  it('leaves neither timers nor listeners behind', async () => {
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
    await jest.advanceTimersByTimeAsync(1.25 * STALL_MS);
    expect(await stateOf(stalled)).toBe('disconnected');
    expect([jest.getTimerCount(), listeners()]).toEqual([0, before]);
  });
});
