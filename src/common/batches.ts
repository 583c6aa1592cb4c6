import { setImmediate } from 'node:timers/promises';

/** Keys that share a statement. */
interface Batch<Key, Result> {
  readonly keys: Set<Key>;
  readonly results: Promise<ReadonlyMap<Key, Result>>;
}

/**
 * Executes work on single keys in batches: what arrives while statements run shares the next one. There is no timer: what arrives
 * alone starts after the turn of the event loop in which it arrived.
 */
export class Batches<Key, Result> {
  /** The batch that keys join until its statement starts. */
  #open: Batch<Key, Result> | undefined;
  #running = 0;
  /** Batches that wait until fewer statements run. */
  readonly #waiting: (() => void)[] = [];

  /**
   * @param runningMax statements that run at once; each ends in bounded time
   * @param sizeMax keys in one statement
   * @param execute is called with keys without duplicates
   */
  constructor(
    private readonly runningMax: number,
    private readonly sizeMax: number,
    private readonly execute: (keys: readonly Key[]) => Promise<ReadonlyMap<Key, Result>>,
  ) {}

  /**
   * Adds a key to the next batch.
   * @returns whether the batch has the key already, and the results of all its keys; rejects when the statement fails
   */
  add(key: Key): { isRepeat: boolean; results: Promise<ReadonlyMap<Key, Result>> } {
    const batch = (this.#open ??= this.#openBatch());
    const isRepeat = batch.keys.has(key);
    batch.keys.add(key);
    if (batch.keys.size === this.sizeMax) {
      this.#open = undefined;
    }
    return { isRepeat, results: batch.results };
  }

  #openBatch(): Batch<Key, Result> {
    const keys = new Set<Key>();
    return { keys, results: this.#run(keys) };
  }

  async #run(keys: ReadonlySet<Key>): Promise<ReadonlyMap<Key, Result>> {
    // Requests that were read in one turn of the event loop share a statement.
    await setImmediate();
    if (this.#running === this.runningMax) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    } else {
      this.#running++;
    }
    if (this.#open?.keys === keys) {
      this.#open = undefined;
    }
    try {
      return await this.execute([...keys]);
    } finally {
      // The next batch takes the place of this one.
      const next = this.#waiting.shift();
      if (next === undefined) {
        this.#running--;
      } else {
        next();
      }
    }
  }
}
