import fc from 'fast-check';
import { Semaphore } from '../../../src/common/semaphore.js';

beforeEach(() => {
  jest.useFakeTimers();
});
afterEach(() => {
  jest.useRealTimers();
});

/** Lets everything that has settled be noticed. */
const settled = (): Promise<void> => jest.advanceTimersByTimeAsync(0);

describe('Semaphore', () => {
  it('admits as many as it has places, and nobody more until a place is given back', async () => {
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

  it('admits those who wait in the order in which they came, whichever way they wait', async () => {
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

  it('does not let a newcomer in front of one who has been given a place', async () => {
    const semaphore = new Semaphore(1);
    await semaphore.acquire();
    const waiting = semaphore.acquireWithin(1_000);
    semaphore.release();
    const newcomer = semaphore.acquireWithin(10);
    expect(await waiting).toBe(true);
    await jest.advanceTimersByTimeAsync(10);
    expect(await newcomer).toBe(false);
  });

  it('gives up waiting after the time that was asked for, not before', async () => {
    const semaphore = new Semaphore(1);
    await semaphore.acquire();
    let outcome: boolean | undefined;
    void semaphore.acquireWithin(100).then((held) => (outcome = held));
    await jest.advanceTimersByTimeAsync(99);
    expect(outcome).toBeUndefined();
    await jest.advanceTimersByTimeAsync(1);
    expect(outcome).toBe(false);
  });

  it('gives the place to the next one when the first in line has given up', async () => {
    const semaphore = new Semaphore(1);
    await semaphore.acquire();
    const [gaveUp, patient] = [semaphore.acquireWithin(10), semaphore.acquireWithin(1_000)];
    await jest.advanceTimersByTimeAsync(10);
    semaphore.release();
    expect([await gaveUp, await patient]).toEqual([false, true]);
  });

  it('leaves no timer behind for one who was admitted', async () => {
    const semaphore = new Semaphore(1);
    expect(await semaphore.acquireWithin(1_000)).toBe(true);
    const waiting = semaphore.acquireWithin(1_000);
    semaphore.release();
    expect(await waiting).toBe(true);
    expect(jest.getTimerCount()).toBe(0);
  });

  it('loses and makes no place, whatever the order of coming, giving up and leaving', async () => {
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
          // Nobody waits beside a free place.
          expect(waiting === 0 || holding === size).toBe(true);
        }
        // In the end all leave, and every place can be taken again.
        while (holding > 0) {
          holding--;
          semaphore.release();
          await settled();
        }
        const places = await Promise.all(
          Array.from({ length: size + 1 }, async () => {
            const held = semaphore.acquireWithin(5);
            await jest.advanceTimersByTimeAsync(5);
            return held;
          }),
        );
        expect(places.filter(Boolean)).toHaveLength(size);
      }),
      { numRuns: 100 },
    );
  });
});
