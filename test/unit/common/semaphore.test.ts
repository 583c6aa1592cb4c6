import { Semaphore } from '../../../src/common/semaphore.js';

describe('Semaphore', () => {
  it('admits as many holders as it has permits, and the others in first-in, first-out order after releases', async () => {
    const semaphore = new Semaphore(2);
    const admitted: number[] = [];
    const waits = [0, 1, 2, 3].map((caller) => semaphore.acquire().then(() => admitted.push(caller)));
    await Promise.all(waits.slice(0, 2));
    expect(admitted).toEqual([0, 1]);
    semaphore.release();
    await waits[2];
    expect(admitted).toEqual([0, 1, 2]);
    semaphore.release();
    await waits[3];
    expect(admitted).toEqual([0, 1, 2, 3]);
  });

  it('gives a released permit to the one that waits, not to a later caller', async () => {
    const semaphore = new Semaphore(1);
    await semaphore.acquire();
    const admitted: string[] = [];
    const waiting = semaphore.acquire().then(() => admitted.push('waiting'));
    semaphore.release();
    const later = semaphore.acquire().then(() => admitted.push('later'));
    await waiting;
    expect(admitted).toEqual(['waiting']);
    semaphore.release();
    await later;
    expect(admitted).toEqual(['waiting', 'later']);
  });

  it('has all its permits again when all are released', async () => {
    const semaphore = new Semaphore(2);
    let admitted = 0;
    for (let round = 0; round < 3; round++) {
      await Promise.all([semaphore.acquire(), semaphore.acquire()]);
      admitted += 2;
      semaphore.release();
      semaphore.release();
    }
    expect(admitted).toBe(6);
  });
});
