/** Wakes the one who waits. */
export class Signal {
  #wake: () => void = () => undefined;

  /** Resolves with the next {@link notify}. */
  wait(): Promise<void> {
    return new Promise((resolve) => (this.#wake = resolve));
  }

  notify(): void {
    this.#wake();
  }
}
