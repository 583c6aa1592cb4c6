import { withDeadline } from '../../../src/common/deadline.js';

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['setImmediate', 'clearImmediate'] });
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

/** Is settled after a time. */
const after = (ms: number, outcome: string | Error): Promise<string> =>
  new Promise((resolve, reject) => {
    setTimeout(() => {
      (outcome instanceof Error ? reject : resolve)(outcome as never);
    }, ms);
  });

describe('withDeadline', () => {
  it('clears its timer when the response is there already', async () => {
    expect(await withDeadline(Promise.resolve('pong'), 100)).toBe('pong');
    expect(jest.getTimerCount()).toBe(0);
  });

  it.each([
    ['a response', 'pong'],
    ['an error', new Error('refused')],
  ])('passes on %s that arrives one millisecond before the deadline and clears its timer', async (_what, outcome) => {
    const watched = watch(withDeadline(after(99, outcome), 100));
    await jest.advanceTimersByTimeAsync(98);
    expect(watched.state).toBe('pending');
    await jest.advanceTimersByTimeAsync(1);
    expect(watched.state).toBe(outcome);
    expect(jest.getTimerCount()).toBe(0);
  });

  it('rejects after the deadline, not before, with an error that names the deadline', async () => {
    const watched = watch(withDeadline(never, 100));
    await turn();
    await jest.advanceTimersByTimeAsync(99);
    expect(watched.state).toBe('pending');
    await jest.advanceTimersByTimeAsync(1);
    expect(watched.state).toMatchObject({ code: 'ETIMEDOUT', message: 'no response within 100 ms' });
  });

  it('passes on a response that is read from the socket in the turn after the timer', async () => {
    // The timer of the deadline is set first.
    const reply = turn().then(() => after(100, 'pong'));
    const watched = watch(withDeadline(reply, 100));
    await turn();
    await jest.advanceTimersByTimeAsync(100);
    await turn();
    expect(watched.state).toBe('pong');
  });

  it('counts a tenth of the deadline for a turn of the event loop in which this process is busy', async () => {
    jest.useRealTimers();
    const busyFor = (ms: number): void => {
      const endsAt = performance.now() + ms;
      while (performance.now() < endsAt);
    };
    const turns = async (count: number): Promise<string> => {
      for (let turn = 0; turn < count; turn++) {
        busyFor(30);
        await new Promise(setImmediate);
      }
      return 'pong';
    };
    expect(await withDeadline(turns(8), 100)).toBe('pong');
    const late = turns(40);
    await expect(withDeadline(late, 100)).rejects.toMatchObject({ code: 'ETIMEDOUT' });
    // Otherwise it would go on beside the next test file.
    await late;
  });
});
