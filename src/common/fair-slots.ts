import { withDeadline } from './deadline.js';

export interface SlotOptions {
  /** Slots that one owner may hold; at least one, by default all. */
  readonly ownerMax?: number;
  /** Callers of one owner that wait at once, by default any number; a further one gets the error at once. */
  readonly waitingMax?: number;
  /** Milliseconds that a caller waits for a slot while this process is not busy. */
  readonly ms: number;
  /** Whether this time begins again as long as others of the same owner get slots, so that all get theirs in turns. */
  readonly inTurns?: boolean;
  /** The error when no slot becomes free in time. */
  readonly error: () => Error;
}

/** Called when a waiter gets a slot. */
type Admit = () => void;

/** The waiters of an owner. */
interface Queue {
  /** The next one first. */
  readonly waiting: Set<Admit>;
  /** The number of those that have got a slot. */
  admitted: number;
}

/**
 * A number of slots that owners share. A free slot goes to the waiting owner who holds the fewest, in turn when several hold as few.
 * No slot is taken away: how many of them one owner can hold is bounded instead.
 */
export class FairSlots {
  #free: number;
  readonly #ownerMax: number;
  readonly #held = new Map<string, number>();
  /** By owner, the next in turn first. */
  readonly #waiters = new Map<string, Queue>();

  /** @param size at least 1 */
  constructor(
    size: number,
    private readonly options: SlotOptions,
  ) {
    this.#free = size;
    this.#ownerMax = Math.max(1, Math.floor(options.ownerMax ?? size));
  }

  /**
   * Does some work while it holds a slot. Rejects like the work.
   * @param signal ends the wait for a slot, not the work, which does not start when it is aborted before
   * @throws {Error} (by rejection) when no slot becomes free in time, or too many of the owner wait; the reason of the signal when
   * that ends the wait
   */
  async run<T>(owner: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    if (this.#mayHoldOneMore(owner)) {
      this.#grant(owner);
    } else if ((this.#waiters.get(owner)?.waiting.size ?? 0) === this.options.waitingMax) {
      throw this.options.error();
    } else {
      await this.#wait(owner, signal);
    }
    try {
      return await work();
    } finally {
      this.#release(owner);
    }
  }

  async #wait(owner: string, signal: AbortSignal | undefined): Promise<void> {
    let admit: Admit = () => undefined;
    let abort = (): void => undefined;
    const admitted = new Promise<void>((resolve, reject) => {
      admit = resolve;
      abort = () => {
        reject(signal?.reason as Error);
      };
    });
    const queue = this.#waiters.get(owner) ?? { waiting: new Set(), admitted: 0 };
    this.#waiters.set(owner, queue);
    queue.waiting.add(admit);
    signal?.addEventListener('abort', abort);
    try {
      await this.#inTime(admitted, queue);
    } catch {
      // Otherwise it has got a slot before it noticed.
      if (this.#stopWaiting(owner, admit)) {
        throw signal?.aborted === true ? (signal.reason as Error) : this.options.error();
      }
    } finally {
      signal?.removeEventListener('abort', abort);
    }
  }

  async #inTime(admitted: Promise<void>, queue: Queue): Promise<void> {
    for (;;) {
      const before = queue.admitted;
      try {
        await withDeadline(admitted, this.options.ms);
        return;
      } catch (error) {
        if (this.options.inTurns !== true || queue.admitted === before) {
          throw error;
        }
      }
    }
  }

  #release(owner: string): void {
    const held = this.#heldBy(owner) - 1;
    if (held === 0) {
      this.#held.delete(owner);
    } else {
      this.#held.set(owner, held);
    }
    this.#free++;
    const next = this.#nextOwner();
    const queue = next === undefined ? undefined : this.#waiters.get(next);
    const [admit] = queue?.waiting ?? [];
    if (next !== undefined && queue !== undefined && admit !== undefined) {
      // Then it is the turn of the others.
      this.#waiters.delete(next);
      this.#waiters.set(next, queue);
      queue.admitted++;
      this.#stopWaiting(next, admit);
      this.#grant(next);
      admit();
    }
  }

  /** The first of the waiting owners who hold the fewest slots and may hold one more. */
  #nextOwner(): string | undefined {
    let next: string | undefined;
    for (const owner of this.#waiters.keys()) {
      if (this.#mayHoldOneMore(owner) && (next === undefined || this.#heldBy(owner) < this.#heldBy(next))) {
        next = owner;
      }
    }
    return next;
  }

  /** @returns whether it was waiting */
  #stopWaiting(owner: string, admit: Admit): boolean {
    const queue = this.#waiters.get(owner);
    const wasWaiting = queue?.waiting.delete(admit) ?? false;
    if (queue?.waiting.size === 0) {
      this.#waiters.delete(owner);
    }
    return wasWaiting;
  }

  #mayHoldOneMore(owner: string): boolean {
    return this.#free > 0 && this.#heldBy(owner) < this.#ownerMax;
  }

  #grant(owner: string): void {
    this.#free--;
    this.#held.set(owner, this.#heldBy(owner) + 1);
  }

  #heldBy(owner: string): number {
    return this.#held.get(owner) ?? 0;
  }
}
