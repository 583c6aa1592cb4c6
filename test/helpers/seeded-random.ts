/** A random number generator whose sequence depends only on its seed. */
export class SeededRandom {
  #state: number;

  /** @param seed an integer from 0 to 2^32-1 */
  constructor(readonly seed: number) {
    this.#state = seed >>> 0;
  }

  /** @returns a number in [0, 1), by the generator mulberry32 */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** @returns an integer in [0, bound) */
  below(bound: number): number {
    return Math.floor(this.next() * bound);
  }

  /** @param values a non-empty list */
  pick<T>(values: readonly T[]): T {
    return values[this.below(values.length)]!;
  }

  /** @returns true with the given probability */
  chance(probability: number): boolean {
    return this.next() < probability;
  }

  /** Creates an independent generator, so that one client's choices do not depend on another's. */
  fork(): SeededRandom {
    return new SeededRandom(this.below(2 ** 32));
  }
}

/**
 * Runs a test with a new seed, or with that of the variable `SEED`, and names the seed in a failure. A seed repeats the
 * choices, but not the timing of concurrent requests.
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
