import { withDeadline } from '../../../src/common/deadline.js';

beforeEach(() => {
  jest.useFakeTimers();
});
afterEach(() => {
  jest.useRealTimers();
});

/** Records the current state of a promise. */
function watch(promise: Promise<unknown>): { state: unknown } {
  const watched: { state: unknown } = { state: 'pending' };
  promise.then(
    (value) => (watched.state = value),
    (error: unknown) => (watched.state = error),
  );
  return watched;
}

const turn = (): Promise<void> => jest.advanceTimersByTimeAsync(0);
const never = new Promise<string>(() => undefined);

/** A promise that the test settles. */
function open(): { promise: Promise<string>; resolve: (value: string) => void; reject: (error: Error) => void } {
  const settle = {} as { resolve: (value: string) => void; reject: (error: Error) => void };
  const promise = new Promise<string>((resolve, reject) => Object.assign(settle, { resolve, reject }));
  return { promise, ...settle };
}

describe('withDeadline', () => {
  it('clears its timer when the response is there already', async () => {
    expect(await withDeadline(Promise.resolve('pong'), 100)).toBe('pong');
    expect(jest.getTimerCount()).toBe(0);
  });

  it.each([
    ['a response', 'pong'],
    ['an error', new Error('refused')],
  ])('passes on %s that arrives one millisecond before the deadline and clears its timer', async (_what, outcome) => {
    const { promise, resolve, reject } = open();
    const watched = watch(withDeadline(promise, 100));
    await turn();
    await jest.advanceTimersByTimeAsync(99);
    expect(watched.state).toBe('pending');
    if (typeof outcome === 'string') {
      resolve(outcome);
    } else {
      reject(outcome);
    }
    await turn();
    expect(watched.state).toBe(outcome);
    expect(jest.getTimerCount()).toBe(0);
  });

  it('rejects after the deadline, not before, with an error that names the deadline', async () => {
    const watched = watch(withDeadline(never, 100));
    await turn();
    await jest.advanceTimersByTimeAsync(99);
    expect(watched.state).toBe('pending');
    await jest.advanceTimersByTimeAsync(1);
    expect(watched.state).toBe('pending');
    // The extra turn: with the fake clock, setImmediate called by a timer runs a millisecond later.
    await jest.advanceTimersByTimeAsync(1);
    expect(watched.state).toMatchObject({ code: 'ETIMEDOUT', message: 'no response within 100 ms' });
  });

  it('passes on a response that is read from the socket in the turn after the timer', async () => {
    const { promise, resolve } = open();
    const watched = watch(withDeadline(promise, 100));
    await turn();
    // The timer runs before the socket is read.
    setTimeout(() => {
      resolve('pong');
    }, 100);
    await jest.advanceTimersByTimeAsync(100);
    await turn();
    expect(watched.state).toBe('pong');
  });
});
