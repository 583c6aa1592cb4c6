/** Limits the number of concurrent holders; further callers wait in first-in, first-out order. */
export class Semaphore {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  /** @param size concurrent holders, at least 1 */
  constructor(size: number) {
    this.#free = size;
  }

  /** Resolves when the caller holds a permit, to be returned with {@link release}. */
  acquire(): Promise<void> {
    if (this.#free > 0) {
      this.#free--;
      return Promise.resolve();
    }
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  release(): void {
    const next = this.#waiting.shift();
    if (next === undefined) {
      this.#free++;
    } else {
      next();
    }
  }
}
