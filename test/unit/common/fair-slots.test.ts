import { FairSlots, type Slot } from '../../../src/common/fair-slots.js';

const NO_TIMEOUT_MS = 60_000;

/** Acquires a slot that may be taken away, which releases it and notes whose it was. */
async function hold(slots: FairSlots, owner: string, cut: string[]): Promise<Slot> {
  const slot = (await slots.acquire(owner, NO_TIMEOUT_MS))!;
  slot.yieldBy(() => {
    cut.push(owner);
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

  it('are taken from the owner of the most until nobody has two more than one who waits', async () => {
    const slots = new FairSlots(4);
    const cut: string[] = [];
    await Promise.all(['a', 'a', 'a', 'a'].map((owner) => hold(slots, owner, cut)));
    await hold(slots, 'b', cut);
    await hold(slots, 'b', cut);
    expect(cut).toEqual(['a', 'a']);
    const third = slots.acquire('b', 0);
    await expect(third).resolves.toBeUndefined();
    await hold(slots, 'c', cut);
    expect(cut).toHaveLength(3);
  });

  it('are taken for each one that waits, also when they are released later', async () => {
    const slots = new FairSlots(4);
    for (let count = 0; count < 4; count++) {
      const slot = (await slots.acquire('a', 0))!;
      slot.yieldBy(() => {
        setImmediate(() => {
          slot.release();
        });
      });
    }
    const waiting = ['b', 'c'].map((owner) => slots.acquire(owner, NO_TIMEOUT_MS));
    for (const slot of await Promise.all(waiting)) {
      expect(slot).toBeDefined();
    }
  });

  it('are not taken before they may be', async () => {
    const slots = new FairSlots(2);
    const cut = jest.fn();
    const [first] = [await slots.acquire('a', 0), await slots.acquire('a', 0)];
    const waiting = slots.acquire('b', NO_TIMEOUT_MS);
    first!.yieldBy(cut);
    expect(cut).toHaveBeenCalledTimes(1);
    first!.release();
    await expect(waiting).resolves.toBeDefined();
  });

  it('go to the waiter whose owner has the fewest, in the order of their requests', async () => {
    const slots = new FairSlots(2);
    const [first, second] = [await slots.acquire('a', 0), await slots.acquire('a', 0)];
    const admitted: string[] = [];
    const wait = async (owner: string, name: string): Promise<void> => {
      await slots.acquire(owner, NO_TIMEOUT_MS);
      admitted.push(name);
    };
    const waiting = [wait('a', 'a'), wait('b', 'b1'), wait('b', 'b2')];
    first!.release();
    second!.release();
    await Promise.all(waiting.slice(1, 2));
    await new Promise(setImmediate);
    expect(admitted).toEqual(['b1', 'a']);
  });

  it('are given to nobody who has stopped waiting', async () => {
    const slots = new FairSlots(1);
    const only = await slots.acquire('a', 0);
    await expect(slots.acquire('b', 0)).resolves.toBeUndefined();
    only!.release();
    await expect(slots.acquire('c', 0)).resolves.toBeDefined();
  });
});
