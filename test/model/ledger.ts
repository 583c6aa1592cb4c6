import type pg from 'pg';
import type { Interval } from './order-history.js';

/** An order as the list shows it; the ids of these tests are small enough for a JavaScript number. */
export interface ListedOrder {
  readonly id: number;
  readonly quantity: number;
  readonly shipDate?: string;
  readonly complete: boolean;
}

/** Orders that a ledger holds besides its two counters, once it has made that many changes. */
const ENTRIES = 5;
/** An entry ships with the second change after the one that made it. */
const SHIPS_AFTER = 2;
/** Ids of one ledger, without its second counter. */
const SPAN = 1_000_000;
/** How far apart the counters lie: all other orders are between them. */
const FAR = 500_000_000;

/**
 * A writer that makes numbered changes to orders of its own, each in one transaction that touches rows at both ends of the
 * list: after change n its counters both say n, the entries of the last {@link ENTRIES} changes are there, the older of
 * them shipped, and no others. So a list gives away which of the changes it shows, and whether it shows one by halves.
 */
export class Ledger {
  readonly #changes: Interval[] = [];
  #beginsAtMs: number | undefined;

  /** @param base its own number, from 1 up: its ids begin at that many times {@link SPAN} */
  constructor(
    readonly name: string,
    private readonly base: number,
    private readonly db: pg.Pool,
  ) {}

  /** Writes the counters. */
  async open(): Promise<void> {
    await this.db.query('INSERT INTO orders (id, pet_id, quantity) VALUES ($1, 1, 1), ($2, 1, 1)', this.#counters());
  }

  /** Makes the next change. When it fails, it waits for the database to say whether the change was made all the same. */
  async change(isOver: () => boolean): Promise<void> {
    const next = this.#changes.length + 1;
    const startMs = performance.now();
    this.#beginsAtMs = startMs;
    const made = await this.#attempt(next, isOver);
    if (made === true) {
      this.#changes.push({ startMs, endMs: performance.now() });
    }
    if (made !== undefined) {
      this.#beginsAtMs = undefined;
    }
  }

  get size(): number {
    return this.#changes.length;
  }

  /** Changes that were committed for certain by then. */
  committedBefore(timeMs: number): number {
    return this.#changes.filter(({ endMs }) => endMs < timeMs).length;
  }

  /** Changes that can have been committed by then. */
  begunBefore(timeMs: number): number {
    const done = this.#changes.filter(({ startMs }) => startMs < timeMs).length;
    return done + (this.#beginsAtMs !== undefined && this.#beginsAtMs < timeMs ? 1 : 0);
  }

  /** Which change a list shows as the last one; undefined when it shows no state that this ledger was ever in. */
  changesShownBy(orders: ReadonlyMap<string, ListedOrder>): number | undefined {
    const changes = (orders.get(String(this.#counters()[0]))?.quantity ?? 0) - 1;
    return this.describe(orders) === this.#stateAfter(changes) ? changes : undefined;
  }

  /** The ledger's rows in a list. */
  describe(orders: ReadonlyMap<string, ListedOrder>): string {
    const [low, high] = this.#counters();
    const rows = [...orders.values()].filter(({ id }) => id === high || (id >= low && id < low + SPAN));
    return rows
      .map(({ id, quantity, complete, shipDate }) =>
        row(id, quantity, complete, shipDate === undefined ? undefined : Date.parse(shipDate)),
      )
      .join(' ');
  }

  #stateAfter(changes: number): string {
    const [low, high] = this.#counters();
    const rows = [row(low, changes + 1, false, undefined)];
    for (let number = Math.max(1, changes - ENTRIES + 1); number <= changes; number++) {
      const ships = number + SHIPS_AFTER;
      rows.push(row(low + number, number, ships <= changes, ships <= changes ? ships * 1_000 : undefined));
    }
    return [...rows, row(high, changes + 1, false, undefined)].join(' ');
  }

  /** @returns whether the change was made; undefined when that could not be found out */
  async #attempt(next: number, isOver: () => boolean): Promise<boolean | undefined> {
    try {
      await this.#write(next);
      return true;
    } catch {
      for (;;) {
        if (isOver()) {
          return undefined;
        }
        try {
          return (await this.#read()) === next;
        } catch {
          // Not yet.
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
      await client.query(
        `UPDATE orders SET status = 'shipped', complete = true, ship_date = to_timestamp($2) WHERE id = $1 AND id > $3`,
        [low + next - SHIPS_AFTER, next, low],
      );
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
    return [this.base * SPAN, this.base * SPAN + FAR];
  }
}

function row(id: number, quantity: number, complete: boolean, shipDateMs: number | undefined): string {
  return `${id}:${quantity}${complete ? ` shipped ${shipDateMs ?? '?'}` : ''}`;
}
