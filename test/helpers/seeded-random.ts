/** Random choices that can be made again: the same seed gives the same choices in the same order. */
export class SeededRandom {
  #state: number;

  /** @param seed an integer from 0 to 2^32-1 */
  constructor(readonly seed: number) {
    this.#state = seed >>> 0;
  }

  /** From 0 up to, and without, 1 (the generator "mulberry32"). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** An integer from 0 up to, and without, `bound`. */
  below(bound: number): number {
    return Math.floor(this.next() * bound);
  }

  /** @param values at least one */
  pick<T>(values: readonly T[]): T {
    return values[this.below(values.length)]!;
  }

  /** True with this probability. */
  chance(probability: number): boolean {
    return this.next() < probability;
  }

  /** A stream of choices of its own, so that what one client does is not moved by how often another one chooses. */
  fork(): SeededRandom {
    return new SeededRandom(this.below(2 ** 32));
  }
}

/**
 * Runs a test on a new seed each time, or on that of the variable `SEED`; a failure says which it was. What goes over
 * the network is timed by the machine, so a seed repeats the choices and not every interleaving.
 */
export async function withSeed(test: (random: SeededRandom) => Promise<void>): Promise<void> {
  const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 32));
  try {
    await test(new SeededRandom(seed));
  } catch (error) {
    if (error instanceof Error) {
      error.message = `With SEED=${seed}: ${error.message}`;
    }
    throw error;
  }
}
