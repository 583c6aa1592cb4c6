import { withDeadline } from './deadline.js';

/** A slot that is held. */
export interface Slot {
  /** Call once or more often. */
  readonly release: () => void;
  /**
   * Call when the slot may be taken away from now on.
   * @param cut ends the work of the holder, which then releases the slot
   */
  yieldBy(cut: () => void): void;
}

interface Holder {
  readonly owner: string;
  /** Set while the slot may be taken away. */
  cut?: (() => void) | undefined;
}

/** Called when a waiter gets a slot. */
type Admit = () => void;

/**
 * A number of slots that owners share fairly. Alone, an owner may have all of them. While others wait, a free slot goes to the
 * owner who has the fewest, in turn when several have as few, and an owner who has at least two more than a waiter gives up the
 * oldest of those that may be taken away. So an owner who competes with three others or more gets down to a quarter or less.
 */
export class FairSlots {
  /** In the order in which they got their slots. */
  readonly #holders = new Set<Holder>();
  readonly #held = new Map<string, number>();
  /** By owner, the next in turn first. */
  readonly #waiters = new Map<string, Set<Admit>>();
  /** The holder whose slot has been taken away, until it releases it. */
  #ending: Holder | undefined;

  /**
   * @param size at least 1
   * @param timeout milliseconds that a caller waits for a slot while this process is not busy, and the error when none becomes free in
   *   time; by default no limit
   */
  constructor(
    private readonly size: number,
    private readonly timeout?: { readonly ms: number; readonly error: () => Error },
  ) {}

  /** Does some work while it holds a slot. Rejects like {@link acquire} and like the work. */
  async run<T>(owner: string, work: (slot: Slot) => Promise<T>): Promise<T> {
    const slot = await this.acquire(owner);
    try {
      return await work(slot);
    } finally {
      slot.release();
    }
  }

  /** @throws {Error} (by rejection) when no slot becomes free in time */
  acquire(owner: string): Promise<Slot> {
    if (this.#holders.size < this.size) {
      return Promise.resolve(this.#grant(owner));
    }
    let admit: Admit = () => undefined;
    const admitted = new Promise<Slot>((resolve) => {
      admit = () => {
        this.#stopWaiting(owner, admit);
        resolve(this.#grant(owner));
      };
      const queue = this.#waiters.get(owner) ?? new Set();
      this.#waiters.set(owner, queue.add(admit));
      this.#settle();
    });
    const { timeout } = this;
    return timeout === undefined
      ? admitted
      : withDeadline(admitted, timeout.ms).catch(() => {
          // Only the deadline rejects.
          this.#stopWaiting(owner, admit);
          throw timeout.error();
        });
  }

  #stopWaiting(owner: string, admit: Admit): void {
    const queue = this.#waiters.get(owner);
    queue?.delete(admit);
    if (queue?.size === 0) {
      this.#waiters.delete(owner);
    }
  }

  #grant(owner: string): Slot {
    const holder: Holder = { owner };
    this.#holders.add(holder);
    this.#held.set(owner, this.#heldBy(owner) + 1);
    return {
      release: () => {
        this.#release(holder);
      },
      yieldBy: (cut) => {
        holder.cut = cut;
        this.#settle();
      },
    };
  }

  #release(holder: Holder): void {
    if (!this.#holders.delete(holder)) {
      return;
    }
    // V8 keeps deleted entries of a set until a full collection: this one must not keep the response alive.
    holder.cut = undefined;
    const held = this.#heldBy(holder.owner) - 1;
    if (held === 0) {
      this.#held.delete(holder.owner);
    } else {
      this.#held.set(holder.owner, held);
    }
    if (this.#ending === holder) {
      this.#ending = undefined;
    }
    this.#settle();
  }

  /** Gives a free slot to a waiter, or has one given up when there is none. One at a time, because each changes who is next. */
  #settle(): void {
    const [owner = '', queue] = this.#next() ?? [];
    if (queue === undefined) {
      return;
    }
    if (this.#holders.size < this.size) {
      // Then it is the turn of the others.
      this.#waiters.delete(owner);
      this.#waiters.set(owner, queue);
      const [admit] = queue;
      admit?.();
      this.#settle();
    } else if (this.#ending === undefined) {
      this.#ending = this.#victim(this.#heldBy(owner) + 2);
      this.#ending?.cut?.();
    }
  }

  /** The first of the waiting owners who have the fewest slots, with its waiters. */
  #next(): [string, Set<Admit>] | undefined {
    let next: [string, Set<Admit>] | undefined;
    for (const each of this.#waiters) {
      if (next === undefined || this.#heldBy(each[0]) < this.#heldBy(next[0])) {
        next = each;
      }
    }
    return next;
  }

  /** The oldest holder whose slot may be taken away, of the owner who has the most slots and at least so many. */
  #victim(atLeast: number): Holder | undefined {
    let victim: Holder | undefined;
    for (const holder of this.#holders) {
      const most = victim === undefined ? atLeast - 1 : this.#heldBy(victim.owner);
      if (holder.cut !== undefined && this.#heldBy(holder.owner) > most) {
        victim = holder;
      }
    }
    return victim;
  }

  #heldBy(owner: string): number {
    return this.#held.get(owner) ?? 0;
  }
}
