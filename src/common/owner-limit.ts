/** Bounds what each owner does at once. */
export class OwnerLimit {
  readonly #running = new Map<string, number>();

  /**
   * @param max of one owner, at least 1
   * @param error when an owner has as many
   */
  constructor(
    private readonly max: number,
    private readonly error: () => Error,
  ) {}

  /** Does some work for an owner. Rejects like the work. @throws {Error} (by rejection) at once, when the owner has as many as it may have */
  async run<T>(owner: string, work: () => Promise<T>): Promise<T> {
    const running = this.#running.get(owner) ?? 0;
    if (running >= this.max) {
      throw this.error();
    }
    this.#running.set(owner, running + 1);
    try {
      return await work();
    } finally {
      this.#end(owner);
    }
  }

  #end(owner: string): void {
    const running = (this.#running.get(owner) ?? 0) - 1;
    if (running > 0) {
      this.#running.set(owner, running);
    } else {
      this.#running.delete(owner);
    }
  }
}
