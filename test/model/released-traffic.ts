import type pg from 'pg';
import { insertOrder } from '../helpers/builders.js';
import type { ReleasedProcess } from '../helpers/released-process.js';
import { waitFor } from '../helpers/wait-for.js';
import { Witness } from './list-writer.js';

/** Negative ids, in ten blocks, because the traffic of the model has the positive ones. */
const ORDERS = 2_000;
const STEP = 80;
/** What merging rows may fail with while another process does the same: their difference, a conflict, a deadlock. */
const CONFLICTS = new Set(['P0001', '40001', '40P01']);

/** A process of release 1.0.0 that lists and cancels, beside one that changes orders, until it is stopped. */
export class ReleasedTraffic {
  readonly #versions = new Witness();
  #lists = 0;
  #cancels = 0;
  #merges = 0;
  #changes = 0;
  #inserted = 0;
  #isStopped = false;
  readonly #running: Promise<unknown>;

  private constructor(
    private readonly process: ReleasedProcess,
    private readonly db: pg.Pool,
  ) {
    const work = [
      () => this.#list(),
      () => this.#list(),
      () => this.#cancel(),
      () => this.#change(),
      () => this.#merge(),
    ];
    this.#running = Promise.all(work.map((step) => this.#repeat(step)));
    // Handled where it is awaited.
    this.#running.catch(() => undefined);
  }

  static async start(process: ReleasedProcess, db: pg.Pool): Promise<ReleasedTraffic> {
    await db.query(
      `INSERT INTO orders (id, pet_id, quantity) SELECT -${STEP} * n, 1, 1 FROM generate_series(1, ${ORDERS}) AS n`,
    );
    return new ReleasedTraffic(process, db);
  }

  /** @returns the id of a new order, which nothing else cancels */
  async insert(): Promise<number> {
    const id = -STEP * (ORDERS + ++this.#inserted);
    await insertOrder(this.db, { id: String(id) });
    return id;
  }

  /** Waits until each kind of work was done some more times. */
  async more(times: number): Promise<void> {
    const [lists, cancels, merges] = [this.#lists, this.#cancels, this.#merges];
    const isDone = (): boolean =>
      this.#lists >= lists + times && this.#cancels >= cancels + times && this.#merges >= merges + 2;
    await Promise.race([waitFor(isDone, 'the older process has worked'), this.#running.then(() => undefined)]);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#running;
  }

  async #repeat(step: () => Promise<void>): Promise<void> {
    while (!this.#isStopped) {
      await step();
    }
  }

  async #list(): Promise<void> {
    const { name, listed, stored } = await this.process.list();
    if (listed !== stored) {
      throw new Error(`A list shows\n${listed}\nand not\n${stored}`);
    }
    this.#versions.see(name, listed);
    this.#lists++;
  }

  /** One order alone, and two in one statement. */
  async #cancel(): Promise<void> {
    const [alone, ...together] = [await this.insert(), await this.insert(), await this.insert()];
    const isCancelled = await this.process.cancel(alone);
    const cancelled = await this.process.cancelBatch(together);
    if (!isCancelled || cancelled.length < together.length) {
      throw new Error(`Of ${alone}, ${together.join()} only ${isCancelled}, ${cancelled.join()} were cancelled`);
    }
    this.#cancels++;
  }

  async #change(): Promise<void> {
    const id = -STEP * ((this.#changes++ * 677) % ORDERS) - 1;
    await this.db.query(
      `INSERT INTO orders (id, pet_id, quantity) VALUES (${id}, 1, 1) ON CONFLICT (id) DO UPDATE SET pet_id = orders.pet_id + 1`,
    );
    await this.db.query(`UPDATE orders SET quantity = quantity % 5 + 1 WHERE id = ${id + 1}`);
    await this.db.query(this.#changes % 3 === 0 ? `DELETE FROM orders WHERE id = ${id}` : 'SELECT');
  }

  async #merge(): Promise<void> {
    await this.process.noteBlocks(-STEP * ORDERS, 0);
    await this.process.compact().catch(rethrowUnlessConflict);
    this.#merges++;
  }
}

export function rethrowUnlessConflict(error: unknown): void {
  if (!CONFLICTS.has((error as { code?: string }).code ?? '')) {
    throw error;
  }
}
