export interface SlotOptions {
  /** Slots that one owner may hold; by default all. */
  readonly ownerMax?: number;
  /** How long a caller waits for a slot; by default not at all. Milliseconds. */
  readonly waitMs?: number;
  /** The error when no slot becomes free in time. */
  readonly error: () => Error;
}

interface Waiter {
  readonly owner: string;
  readonly admit: () => void;
}

/** A number of slots, of which each owner may hold a part. Who finds none may wait for a while: first come, first served. */
export class Slots {
  #free: number;
  readonly #held = new Map<string, number>();
  readonly #waiting = new Set<Waiter>();

  /** @param size at least 1 */
  constructor(
    size: number,
    private readonly options: SlotOptions,
  ) {
    this.#free = size;
  }

  /** Does some work while it holds a slot. Rejects like the work. @throws {Error} (by rejection) when no slot becomes free in time */
  async run<T>(owner: string, work: () => Promise<T>): Promise<T> {
    if (this.#mayHoldOneMore(owner)) {
      this.#grant(owner);
    } else {
      await this.#wait(owner);
    }
    try {
      return await work();
    } finally {
      this.#release(owner);
    }
  }

  #wait(owner: string): Promise<void> {
    const { waitMs = 0, error } = this.options;
    if (waitMs === 0) {
      throw error();
    }
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(waiter);
        reject(error());
      }, waitMs);
      const waiter = {
        owner,
        admit: () => {
          this.#waiting.delete(waiter);
          clearTimeout(timer);
          resolve();
        },
      };
      this.#waiting.add(waiter);
    });
  }

  #release(owner: string): void {
    this.#free++;
    const held = this.#heldBy(owner) - 1;
    if (held === 0) {
      this.#held.delete(owner);
    } else {
      this.#held.set(owner, held);
    }
    const next = Array.from(this.#waiting).find((waiter) => this.#mayHoldOneMore(waiter.owner));
    if (next !== undefined) {
      this.#grant(next.owner);
      next.admit();
    }
  }

  #mayHoldOneMore(owner: string): boolean {
    return this.#free > 0 && this.#heldBy(owner) < (this.options.ownerMax ?? Infinity);
  }

  #grant(owner: string): void {
    this.#free--;
    this.#held.set(owner, this.#heldBy(owner) + 1);
  }

  #heldBy(owner: string): number {
    return this.#held.get(owner) ?? 0;
  }
}
