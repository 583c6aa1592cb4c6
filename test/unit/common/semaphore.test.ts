import fc from 'fast-check';
import { Semaphore } from '../../../src/common/semaphore.js';

beforeEach(() => {
  jest.useFakeTimers();
});
afterEach(() => {
  jest.useRealTimers();
});

/** Runs the callbacks of settled promises. */
const settled = (): Promise<void> => jest.advanceTimersByTimeAsync(0);

describe('Semaphore', () => {
  it('admits as many holders as it has permits, and another one after a release', async () => {
    const semaphore = new Semaphore(2);
    let admitted = 0;
    for (let caller = 0; caller < 3; caller++) {
      void semaphore.acquire().then(() => admitted++);
    }
    await settled();
    expect(admitted).toBe(2);
    semaphore.release();
    await settled();
    expect(admitted).toBe(3);
  });

  it('admits waiting callers in first-in, first-out order, with and without a timeout', async () => {
    const semaphore = new Semaphore(1);
    await semaphore.acquire();
    const admitted: string[] = [];
    void semaphore.acquire().then(() => admitted.push('first'));
    void semaphore.acquireWithin(1_000).then(() => admitted.push('second'));
    void semaphore.acquire().then(() => admitted.push('third'));
    for (const expected of [['first'], ['first', 'second'], ['first', 'second', 'third']]) {
      semaphore.release();
      await settled();
      expect(admitted).toEqual(expected);
    }
  });

  it('does not give a released permit to a later caller when one is waiting', async () => {
    const semaphore = new Semaphore(1);
    await semaphore.acquire();
    const waiting = semaphore.acquireWithin(1_000);
    semaphore.release();
    const later = semaphore.acquireWithin(10);
    expect(await waiting).toBe(true);
    await jest.advanceTimersByTimeAsync(10);
    expect(await later).toBe(false);
  });

  it('returns false after the timeout, not before', async () => {
    const semaphore = new Semaphore(1);
    await semaphore.acquire();
    let outcome: boolean | undefined;
    void semaphore.acquireWithin(100).then((held) => (outcome = held));
    await jest.advanceTimersByTimeAsync(99);
    expect(outcome).toBeUndefined();
    await jest.advanceTimersByTimeAsync(1);
    expect(outcome).toBe(false);
  });

  it('gives the permit to the next caller when the first has timed out', async () => {
    const semaphore = new Semaphore(1);
    await semaphore.acquire();
    const [gaveUp, patient] = [semaphore.acquireWithin(10), semaphore.acquireWithin(1_000)];
    await jest.advanceTimersByTimeAsync(10);
    semaphore.release();
    expect([await gaveUp, await patient]).toEqual([false, true]);
  });

  it('clears the timer when the caller is admitted', async () => {
    const semaphore = new Semaphore(1);
    expect(await semaphore.acquireWithin(1_000)).toBe(true);
    const waiting = semaphore.acquireWithin(1_000);
    semaphore.release();
    expect(await waiting).toBe(true);
    expect(jest.getTimerCount()).toBe(0);
  });

  it('neither loses nor creates permits in any order of acquire, timeout and release', async () => {
    const step = fc.oneof(
      fc.constant('acquire' as const),
      fc.record({ within: fc.integer({ min: 0, max: 30 }) }),
      fc.constant('release' as const),
      fc.record({ pass: fc.integer({ min: 1, max: 20 }) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 4 }), fc.array(step, { maxLength: 60 }), async (size, steps) => {
        const semaphore = new Semaphore(size);
        let [holding, waiting] = [0, 0];
        const waitFor = (entry: Promise<boolean>): void => {
          waiting++;
          void entry.then((held) => {
            waiting--;
            holding += held ? 1 : 0;
          });
        };
        for (const each of steps) {
          if (each === 'acquire') {
            waitFor(semaphore.acquire().then(() => true));
          } else if (each === 'release') {
            if (holding > 0) {
              holding--;
              semaphore.release();
            }
          } else if ('within' in each) {
            waitFor(semaphore.acquireWithin(each.within));
          } else {
            await jest.advanceTimersByTimeAsync(each.pass);
          }
          await settled();
          expect(holding).toBeLessThanOrEqual(size);
          // No caller waits while a permit is free.
          expect(waiting === 0 || holding === size).toBe(true);
        }
        // After all holders have released, every permit can be acquired again.
        while (holding > 0) {
          holding--;
          semaphore.release();
          await settled();
        }
        const permits = await Promise.all(
          Array.from({ length: size + 1 }, async () => {
            const held = semaphore.acquireWithin(5);
            await jest.advanceTimersByTimeAsync(5);
            return held;
          }),
        );
        expect(permits.filter(Boolean)).toHaveLength(size);
      }),
      { numRuns: 100 },
    );
  });
});
