import { FairSlots, type SlotOptions } from '../../../src/common/fair-slots.js';

const LONG: SlotOptions = { ms: 60_000, error: () => new Error('too many') };
/** Times out at once. */
const SHORT: SlotOptions = { ...LONG, ms: 0 };

/** Work that holds its slot until it is told to end. */
interface Held {
  readonly end: () => void;
  readonly ended: Promise<void>;
}

const holding: Held[] = [];
// A wait has a timer.
afterEach(async () => {
  holding.forEach(({ end }) => {
    end();
  });
  await Promise.allSettled(holding.splice(0).map(({ ended }) => ended));
});

function hold(slots: FairSlots, owner: string, started: string[], name = owner, signal?: AbortSignal): Held {
  let end = (): void => undefined;
  const work = new Promise<void>((resolve) => (end = resolve));
  const run = (): Promise<void> => {
    started.push(name);
    return work;
  };
  const ended = slots.run(owner, run, signal);
  // Handled where it is awaited.
  ended.catch(() => undefined);
  holding.push({ end, ended });
  return { end, ended };
}

const turn = (): Promise<void> => new Promise(setImmediate);

describe('fair slots', () => {
  it('all go to one owner by default', async () => {
    const started: string[] = [];
    const slots = new FairSlots(3, SHORT);
    const held = ['a', 'a', 'a', 'a'].map((owner) => hold(slots, owner, started));
    await expect(held[3]!.ended).rejects.toThrow('too many');
    expect(started).toEqual(['a', 'a', 'a']);
  });

  it('of which one owner may hold a part leave the rest to others, also when they are released', async () => {
    const started: string[] = [];
    const slots = new FairSlots(4, { ...LONG, ownerMax: 2 });
    const [first] = ['a1', 'a2', 'a3', 'b1'].map((name) => hold(slots, name.charAt(0), started, name));
    await turn();
    expect(started).toEqual(['a1', 'a2', 'b1']);
    hold(slots, 'c', started, 'c1');
    first!.end();
    await turn();
    expect(started).toEqual(['a1', 'a2', 'b1', 'c1', 'a3']);
  });

  it.each([0, 0.25, 1, 1.9])('leave each owner one when the part is %d', async (ownerMax) => {
    const started: string[] = [];
    const slots = new FairSlots(2, { ...LONG, ownerMax });
    ['a', 'a', 'b'].forEach((owner) => hold(slots, owner, started));
    await turn();
    expect(started).toEqual(['a', 'b']);
  });

  it('are waited for by a bounded number of callers of an owner, which those that leave or get a slot make room for', async () => {
    const started: string[] = [];
    const slots = new FairSlots(1, { ...LONG, waitingMax: 2 });
    const first = hold(slots, 'a', started, 'a1');
    const left = new AbortController();
    const leaving = hold(slots, 'b', started, 'b1', left.signal);
    const [second, rejected] = ['b2', 'b3'].map((name) => hold(slots, 'b', started, name));
    await expect(rejected!.ended).rejects.toThrow('too many');
    const other = hold(slots, 'c', started, 'c1');
    left.abort(new Error('left'));
    await expect(leaving.ended).rejects.toThrow('left');
    const third = hold(slots, 'b', started, 'b4');
    for (const { end } of [first, second!, other, third]) {
      end();
      await turn();
    }
    expect(started).toEqual(['a1', 'b2', 'c1', 'b4']);
  });

  it('go to the waiter whose owner has the fewest', async () => {
    const started: string[] = [];
    const slots = new FairSlots(2, LONG);
    const held = [hold(slots, 'a', started), hold(slots, 'a', started)];
    ['a', 'b', 'b'].forEach((owner, index) => hold(slots, owner, started, `${owner}${index}`));
    held[0]!.end();
    await turn();
    expect(started).toEqual(['a', 'a', 'b1']);
    held[1]!.end();
    await turn();
    expect(started).toEqual(['a', 'a', 'b1', 'a0']);
  });

  it('go to owners with as few in turn, each in the order of its requests', async () => {
    const started: string[] = [];
    const slots = new FairSlots(1, LONG);
    const first = hold(slots, 'a', started);
    const waiting = ['a1', 'a2', 'b1', 'b2', 'a3'].map((name) => hold(slots, name.charAt(0), started, name));
    [first, ...waiting].forEach(({ end }) => {
      end();
    });
    await Promise.all(waiting.map(({ ended }) => ended));
    expect(started).toEqual(['a', 'a1', 'b1', 'a2', 'b2', 'a3']);
  });

  it('are given to nobody whose wait has timed out', async () => {
    const started: string[] = [];
    const slots = new FairSlots(1, SHORT);
    const only = hold(slots, 'a', started);
    await expect(hold(slots, 'b', started).ended).rejects.toThrow('too many');
    only.end();
    await only.ended;
    await slots.run('c', () => Promise.resolve(started.push('c')));
    expect(started).toEqual(['a', 'c']);
  });

  it('are given to nobody whose signal has ended the wait, which lets the others wait', async () => {
    const started: string[] = [];
    const slots = new FairSlots(1, LONG);
    const only = hold(slots, 'a', started);
    const leaving = new AbortController();
    const left = hold(slots, 'b', started, 'left', leaving.signal);
    const stayed = hold(slots, 'b', started, 'stayed');
    leaving.abort(new Error('left'));
    await expect(left.ended).rejects.toThrow('left');
    await expect(hold(slots, 'b', started, 'late', leaving.signal).ended).rejects.toThrow('left');
    only.end();
    stayed.end();
    await stayed.ended;
    expect(started).toEqual(['a', 'stayed']);
  });

  it('are not lost when a slot becomes free in the turn in which the wait ends', async () => {
    const started: string[] = [];
    const slots = new FairSlots(1, SHORT);
    const only = hold(slots, 'a', started);
    const leaving = new AbortController();
    const waiting = hold(slots, 'b', started, 'b', leaving.signal);
    leaving.abort(new Error('left'));
    only.end();
    waiting.end();
    await Promise.allSettled([only.ended, waiting.ended]);
    await expect(slots.run('c', () => Promise.resolve('c'))).resolves.toBe('c');
  });

  it('keep work that its signal ends after the wait', async () => {
    const leaving = new AbortController();
    const work = hold(new FairSlots(1, LONG), 'a', [], 'a', leaving.signal);
    leaving.abort(new Error('left'));
    work.end();
    await expect(work.ended).resolves.toBeUndefined();
  });

  it('are waited for while the process is not busy', async () => {
    const slots = new FairSlots(1, { ...LONG, ms: 10 });
    const only = hold(slots, 'a', []);
    // After a turn, timers come before what is released.
    await turn();
    const waiting = slots.run('b', () => Promise.resolve('b'));
    setImmediate(only.end);
    for (const until = performance.now() + 50; performance.now() < until;);
    await expect(waiting).resolves.toBe('b');
  });

  it('are waited for as long as others of the same owner get theirs, if they take turns', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask', 'performance'] });
    try {
      const started: string[] = [];
      const slots = new FairSlots(1, { ...LONG, ms: 1_000, inTurns: true });
      const [first, second, , ...last] = ['a1', 'a2', 'a3', 'a4', 'a5', 'a6'].map((name) =>
        hold(slots, 'a', started, name),
      );
      const late = hold(slots, 'b', started);
      const pass = async (ms: number): Promise<void> => {
        await turn();
        await jest.advanceTimersByTimeAsync(ms);
        await turn();
        await turn();
      };
      await pass(600);
      first!.end();
      await pass(600);
      await expect(late.ended).rejects.toThrow('too many');
      second!.end();
      await pass(1_000);
      expect(started).toEqual(['a1', 'a2', 'a3']);
      await pass(1_000);
      // All at once: that one stops to wait is no turn of the others.
      for (const { ended } of last) {
        await expect(ended).rejects.toThrow('too many');
      }
      expect(jest.getTimerCount()).toBe(0);
    } finally {
      jest.useRealTimers();
    }
  });

  it('are released after work that fails, whose error is that of the run', async () => {
    const slots = new FairSlots(1, SHORT);
    await expect(slots.run('a', () => Promise.reject(new Error('no')))).rejects.toThrow('no');
    await expect(slots.run('b', () => Promise.resolve('b'))).resolves.toBe('b');
  });
});
