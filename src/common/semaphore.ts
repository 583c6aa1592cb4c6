/** Admits a bounded number of holders at once; the others wait in the order in which they came. */
export class Semaphore {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  /** @param size holders admitted at once, at least 1 */
  constructor(size: number) {
    this.#free = size;
  }

  /** Resolves when the caller holds a place; each must be given back by {@link release}. */
  acquire(): Promise<void> {
    if (this.#free > 0) {
      this.#free--;
      return Promise.resolve();
    }
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /**
   * Like {@link acquire}, but gives up after a while.
   * @returns whether the caller holds a place
   */
  async acquireWithin(milliseconds: number): Promise<boolean> {
    if (this.#free > 0) {
      this.#free--;
      return true;
    }
    return new Promise((resolve) => {
      const admit = (): void => {
        clearTimeout(timer);
        resolve(true);
      };
      const timer = setTimeout(() => {
        this.#waiting.splice(this.#waiting.indexOf(admit), 1);
        resolve(false);
      }, milliseconds);
      this.#waiting.push(admit);
    });
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
