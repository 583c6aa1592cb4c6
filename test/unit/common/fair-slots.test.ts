import { FairSlots, type Slot } from '../../../src/common/fair-slots.js';

/** Times out at once. */
const TIMEOUT = { ms: 0, error: () => new Error('too many') };

/** Acquires a slot that may be taken away, which releases it and notes whose it was. */
async function hold(slots: FairSlots, owner: string, cut: string[]): Promise<Slot> {
  const slot = await slots.acquire(owner);
  slot.yieldBy(() => {
    cut.push(owner);
    slot.release();
    // As if it were called once.
    slot.release();
  });
  return slot;
}

describe('fair slots', () => {
  it('all go to one owner while nobody else waits', async () => {
    const slots = new FairSlots(3);
    const cut: string[] = [];
    await Promise.all(['a', 'a', 'a'].map((owner) => hold(slots, owner, cut)));
    expect(cut).toEqual([]);
  });

  it('move from the owner with the most until none has two more than a waiter', async () => {
    const slots = new FairSlots(4, TIMEOUT);
    const cut: string[] = [];
    await Promise.all(['a', 'a', 'a', 'a'].map((owner) => hold(slots, owner, cut)));
    await hold(slots, 'b', cut);
    await hold(slots, 'b', cut);
    expect(cut).toEqual(['a', 'a']);
    await expect(slots.acquire('b')).rejects.toThrow('too many');
    await hold(slots, 'c', cut);
    expect(cut).toHaveLength(3);
  });

  it('are not taken from an owner with only one more than one who waits', async () => {
    const slots = new FairSlots(3, TIMEOUT);
    const cut: string[] = [];
    await Promise.all(['a', 'a', 'b'].map((owner) => hold(slots, owner, cut)));
    await expect(slots.acquire('b')).rejects.toThrow('too many');
    expect(cut).toEqual([]);
  });

  it('are taken for each one that waits, also when they are released later', async () => {
    const slots = new FairSlots(4);
    for (let count = 0; count < 4; count++) {
      const slot = await slots.acquire('a');
      slot.yieldBy(() => {
        setImmediate(() => {
          slot.release();
        });
      });
    }
    const waiting = ['b', 'c'].map((owner) => slots.acquire(owner));
    for (const slot of await Promise.all(waiting)) {
      expect(slot).toBeDefined();
    }
  });

  it('are not taken before they may be', async () => {
    const slots = new FairSlots(2);
    const cut = jest.fn();
    const [first] = [await slots.acquire('a'), await slots.acquire('a')];
    const waiting = slots.acquire('b');
    first.yieldBy(cut);
    expect(cut).toHaveBeenCalledTimes(1);
    first.release();
    await expect(waiting).resolves.toBeDefined();
  });

  it('go to the waiter whose owner has the fewest, in the order of their requests', async () => {
    const slots = new FairSlots(2);
    const [first, second] = [await slots.acquire('a'), await slots.acquire('a')];
    const admitted: string[] = [];
    const wait = async (owner: string, name: string): Promise<void> => {
      await slots.acquire(owner);
      admitted.push(name);
    };
    const waiting = [wait('a', 'a'), wait('b', 'b1'), wait('b', 'b2')];
    first.release();
    second.release();
    await Promise.all(waiting.slice(1, 2));
    await new Promise(setImmediate);
    expect(admitted).toEqual(['b1', 'a']);
  });

  it('are given to nobody who has stopped waiting', async () => {
    const slots = new FairSlots(1, TIMEOUT);
    const only = await slots.acquire('a');
    await expect(slots.acquire('b')).rejects.toThrow('too many');
    only.release();
    await expect(slots.acquire('c')).resolves.toBeDefined();
  });

  it('are waited for while the process is not busy', async () => {
    const slots = new FairSlots(1, { ...TIMEOUT, ms: 10 });
    const only = await slots.acquire('a');
    // After a turn, timers come before what is released.
    await new Promise(setImmediate);
    const waiting = slots.acquire('b');
    setImmediate(only.release.bind(only));
    for (const until = performance.now() + 50; performance.now() < until;);
    await expect(waiting).resolves.toBeDefined();
  });

  it('are released after work, also when it fails', async () => {
    const slots = new FairSlots(1, TIMEOUT);
    await expect(slots.run('a', () => Promise.resolve('done'))).resolves.toBe('done');
    await expect(slots.run('a', () => Promise.reject(new Error('no')))).rejects.toThrow('no');
    await expect(slots.acquire('b')).resolves.toBeDefined();
  });

  it('are waited for without end by default: owners with as few slots in turn, each in the order of its requests', async () => {
    const slots = new FairSlots(1);
    const first = await slots.acquire('a');
    const admitted: string[] = [];
    const waiting = ['a1', 'a2', 'b1', 'b2', 'a3'].map((name) =>
      slots.run(name.charAt(0), () => Promise.resolve(admitted.push(name))),
    );
    first.release();
    await Promise.all(waiting);
    expect(admitted).toEqual(['a1', 'b1', 'a2', 'b2', 'a3']);
  });
});
