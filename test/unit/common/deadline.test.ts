import { DeadlineExceeded, withDeadline } from '../../../src/common/deadline.js';

beforeEach(() => {
  jest.useFakeTimers();
});
afterEach(() => {
  jest.useRealTimers();
});

/** What has become of a promise so far. */
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

describe('an answer with a deadline', () => {
  it('is passed on as it came, and no timer is left behind', async () => {
    expect(await withDeadline(Promise.resolve('pong'), 100)).toBe('pong');
    expect(jest.getTimerCount()).toBe(0);
    const failure = new Error('refused');
    await expect(withDeadline(Promise.reject(failure), 100)).rejects.toBe(failure);
    expect(jest.getTimerCount()).toBe(0);
  });

  it.each([
    ['an answer', 'pong'],
    ['an error', new Error('refused')],
  ])('may be %s up to the last moment, and no timer is left behind', async (_what, outcome) => {
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

  it('is given up after the time, not before, and the error says what the time was', async () => {
    const watched = watch(withDeadline(never, 100));
    await turn();
    await jest.advanceTimersByTimeAsync(99);
    expect(watched.state).toBe('pending');
    await jest.advanceTimersByTimeAsync(1);
    expect(watched.state).toBe('pending');
    // The turn of grace: by the fake clock, a turn that a timer asks for comes a millisecond later.
    await jest.advanceTimersByTimeAsync(1);
    expect(watched.state).toBeInstanceOf(DeadlineExceeded);
    expect(watched.state).toMatchObject({ name: 'DeadlineExceeded', message: 'no answer within 100 ms' });
  });

  it('is read in the turn that follows the time, for it may have lain there unread', async () => {
    const { promise, resolve } = open();
    const watched = watch(withDeadline(promise, 100));
    await turn();
    // The timer runs, and only then is the socket read.
    setTimeout(() => {
      resolve('pong');
    }, 100);
    await jest.advanceTimersByTimeAsync(100);
    await turn();
    expect(watched.state).toBe('pong');
  });
});
