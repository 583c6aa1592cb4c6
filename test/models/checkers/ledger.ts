import type pg from 'pg';
import type { Interval } from './order-history.js';

/** An order of the list, with an id that fits into a JavaScript number. */
export interface ListedOrder {
  readonly id: number;
  readonly quantity: number;
  readonly complete: boolean;
}

/** Entries that a ledger keeps besides its two counters. */
const ENTRIES = 5;
/** Size of a ledger's id range, without its second counter. */
const SPAN = 1_000_000;
/** Distance between the ids of the two counters. All other orders lie between them. */
const COUNTER_DISTANCE = 500_000_000;

/**
 * Makes numbered changes to its own orders, each in one transaction that writes rows at both ends of the list. After change
 * n both counters show n, and exactly the entries of the last {@link ENTRIES} changes exist. So a list reveals which change it
 * shows, and whether it shows part of a transaction.
 */
export class Ledger {
  readonly #changes: Interval[] = [];
  #pendingSinceMs: number | undefined;

  /** @param number at least 1; the ids start at it times {@link SPAN} */
  constructor(
    readonly number: number,
    private readonly db: pg.Pool,
  ) {}

  async insertCounters(): Promise<void> {
    await this.db.query('INSERT INTO orders (id, pet_id, quantity) VALUES ($1, 1, 1), ($2, 1, 1)', this.#counters());
  }

  /** Makes the next change. After an error it reads back whether the change was committed, until the database responds. */
  async change(isStopped: () => boolean): Promise<void> {
    const next = this.#changes.length + 1;
    const startMs = performance.now();
    this.#pendingSinceMs = startMs;
    const made = await this.#attempt(next, isStopped);
    if (made === true) {
      this.#changes.push({ startMs, endMs: performance.now() });
    }
    if (made !== undefined) {
      this.#pendingSinceMs = undefined;
    }
  }

  /** Changes that were certainly committed at that time. */
  committedBefore(timeMs: number): number {
    return this.#changes.filter(({ endMs }) => endMs < timeMs).length;
  }

  /** Changes that may have been committed at that time. */
  startedBefore(timeMs: number): number {
    const done = this.#changes.filter(({ startMs }) => startMs < timeMs).length;
    return done + (this.#pendingSinceMs !== undefined && this.#pendingSinceMs < timeMs ? 1 : 0);
  }

  /** @returns the number of changes that a list shows; undefined when it shows a state that never existed */
  changesShownBy(orders: ReadonlyMap<string, ListedOrder>): number | undefined {
    const changes = (orders.get(String(this.#counters()[0]))?.quantity ?? 0) - 1;
    return this.describe(orders) === this.#stateAfter(changes) ? changes : undefined;
  }

  /** @returns the ledger's rows of a list as text */
  describe(orders: ReadonlyMap<string, ListedOrder>): string {
    const [low, high] = this.#counters();
    const rows = [...orders.values()].filter(({ id }) => id === high || (id >= low && id < low + SPAN));
    return rows.map(({ id, quantity }) => `${id}:${quantity}`).join(' ');
  }

  #stateAfter(changes: number): string {
    const [low, high] = this.#counters();
    const entries: string[] = [];
    for (let number = Math.max(1, changes - ENTRIES + 1); number <= changes; number++) {
      entries.push(`${low + number}:${number}`);
    }
    return [`${low}:${changes + 1}`, ...entries, `${high}:${changes + 1}`].join(' ');
  }

  /** @returns whether the change was committed; undefined when the database did not respond */
  async #attempt(next: number, isStopped: () => boolean): Promise<boolean | undefined> {
    try {
      await this.#write(next);
      return true;
    } catch {
      for (;;) {
        if (isStopped()) {
          return undefined;
        }
        try {
          return (await this.#read()) === next;
        } catch {
          // The database is still unavailable.
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
      }
    }
  }

  async #read(): Promise<number> {
    const { rows } = await this.db.query<{ quantity: number }>('SELECT quantity FROM orders WHERE id = $1', [
      this.#counters()[0],
    ]);
    return (rows[0]?.quantity ?? 0) - 1;
  }

  async #write(next: number): Promise<void> {
    const [low, high] = this.#counters();
    const client = await this.db.connect();
    try {
      await client.query('BEGIN');
      await client.query('UPDATE orders SET quantity = $2 WHERE id = $1', [low, next + 1]);
      await client.query('INSERT INTO orders (id, pet_id, quantity) VALUES ($1, 1, $2)', [low + next, next]);
      await client.query('DELETE FROM orders WHERE id = $1 AND id > $2', [low + next - ENTRIES, low]);
      await client.query('UPDATE orders SET quantity = $2 WHERE id = $1', [high, next + 1]);
      await client.query('COMMIT');
      client.release();
    } catch (error) {
      client.release(true);
      throw error;
    }
  }

  #counters(): [low: number, high: number] {
    return [this.number * SPAN, this.number * SPAN + COUNTER_DISTANCE];
  }
}
