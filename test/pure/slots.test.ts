import { Slots } from '../../src/common/slots.js';

const busy = new Error('no slot');

/** Work that ends when the test ends it, in the order in which it began. */
class Works {
  readonly begun: string[] = [];
  readonly #ends: (() => void)[] = [];

  constructor(private readonly slots: Slots) {}

  run(owner: string): Promise<void> {
    return this.slots.run(owner, () => {
      this.begun.push(owner);
      return new Promise((resolve) => this.#ends.push(resolve));
    });
  }

  /** Ends the oldest one. */
  async end(): Promise<void> {
    this.#ends.shift()?.();
    await Promise.resolve().then(() => undefined);
    await new Promise((resolve) => process.nextTick(resolve));
  }
}

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['nextTick'] });
});
afterEach(() => {
  jest.useRealTimers();
});

describe('slots', () => {
  it('when an owner holds its part, reject it and leave the rest to others', async () => {
    const works = new Works(new Slots(3, { ownerMax: 2, error: () => busy }));
    const running = [works.run('a'), works.run('a')];
    await expect(works.run('a')).rejects.toBe(busy);
    running.push(works.run('b'));
    await expect(works.run('b')).rejects.toBe(busy);
    expect(works.begun).toEqual(['a', 'a', 'b']);
    await works.end();
    running.push(works.run('a'));
    expect(works.begun).toEqual(['a', 'a', 'b', 'a']);
    await Promise.all([works.end(), works.end(), works.end()]);
    await Promise.all(running);
  });

  it('when one becomes free, go to the first who waits and does not hold its part', async () => {
    const works = new Works(new Slots(2, { ownerMax: 1, waitMs: 1_000, error: () => busy }));
    const running = ['a', 'a', 'b', 'c'].map((owner) => works.run(owner));
    expect(works.begun).toEqual(['a', 'b']);
    await works.end();
    expect(works.begun).toEqual(['a', 'b', 'a']);
    await works.end();
    expect(works.begun).toEqual(['a', 'b', 'a', 'c']);
    await works.end();
    await works.end();
    await Promise.all(running);
  });

  it('are waited for no longer than the given time, and not given to a caller that has left', async () => {
    const works = new Works(new Slots(1, { waitMs: 1_000, error: () => busy }));
    const first = works.run('a');
    const late = works.run('b').catch((error: unknown) => error);
    await jest.advanceTimersByTimeAsync(1_000);
    expect(await late).toBe(busy);
    await works.end();
    await first;
    const next = works.run('c');
    expect(works.begun).toEqual(['a', 'c']);
    await works.end();
    await next;
  });

  it('are released after work that fails, whose error is that of the run', async () => {
    const slots = new Slots(1, { error: () => busy });
    const failure = new Error('failed');
    await expect(slots.run('a', () => Promise.reject(failure))).rejects.toBe(failure);
    await expect(slots.run('a', () => Promise.resolve('done'))).resolves.toBe('done');
  });
});
