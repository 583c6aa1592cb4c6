import { setImmediate } from 'node:timers/promises';
import type { FairSlots } from './fair-slots.js';

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

  /**
   * @param slots of which each statement holds one
   * @param sizeMax keys in one statement
   * @param execute is called with keys without duplicates
   */
  constructor(
    private readonly slots: FairSlots,
    private readonly sizeMax: number,
    private readonly execute: (keys: readonly Key[]) => Promise<ReadonlyMap<Key, Result>>,
  ) {}

  /**
   * Adds a key to the next batch.
   * @returns whether the batch has the key already, and the results of all its keys; rejects when the statement fails or gets no slot in
   * time
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
    // The slot is taken after this turn of the event loop, so that requests read in one turn share a statement.
    await setImmediate();
    const close = (): void => {
      this.#open = this.#open?.keys === keys ? undefined : this.#open;
    };
    const run = (): Promise<ReadonlyMap<Key, Result>> => {
      close();
      return this.execute([...keys]);
    };
    return this.slots.run('', run).finally(close);
  }
}
