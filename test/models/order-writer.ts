import type pg from 'pg';
import { insertOrder, type OrderRow } from '../helpers/builders.js';
import type { SeededRandom } from '../helpers/seeded-random.js';
import type { Change, OrderHistory } from './checkers/order-history.js';

/** Above the ids of the ledgers' entries and below those of their second counters. */
const FIRST_ORDER_ID = 100_000_000;
/** Few orders at a time, so that clients contend for them. */
const ORDERS_AT_ONCE = 60;

type Status = OrderRow['status'];

/** Inserts, ships, updates and deletes random orders in the database, and records every change. */
export class OrderWriter {
  readonly #ids: string[] = [];
  #inserted = 0;

  constructor(
    private readonly db: pg.Pool,
    private readonly history: OrderHistory,
  ) {}

  async insertFirstOrders(): Promise<void> {
    for (let order = 0; order < ORDERS_AT_ONCE; order++) {
      await this.insert();
    }
  }

  /** @returns mostly one of the newest orders, which are likely to be pending; sometimes a deleted one */
  pick(random: SeededRandom): string {
    const newest = this.#ids.slice(-ORDERS_AT_ONCE);
    return random.chance(0.6) ? random.pick(newest.slice(-8)) : random.pick(newest);
  }

  async insert(): Promise<void> {
    const id = String(FIRST_ORDER_ID + this.#inserted++);
    await this.#change(id, 'inserted', async () => {
      await insertOrder(this.db, { id });
      this.#ids.push(id);
      return true;
    });
  }

  /** @param lockFirst holds the row lock for a moment before the update */
  async ship(id: string, lockFirst: boolean): Promise<void> {
    await this.#change(id, 'shipped', async () => {
      const client = await this.db.connect();
      try {
        await client.query('BEGIN');
        if (lockFirst) {
          await client.query('SELECT FROM orders WHERE id = $1 FOR UPDATE', [id]);
          await client.query('SELECT pg_sleep(0.002)');
        }
        const { rowCount } = await client.query(
          `UPDATE orders SET status = 'shipped', complete = true WHERE id = $1 AND status = 'pending'`,
          [id],
        );
        await client.query('COMMIT');
        client.release();
        return rowCount === 1;
      } catch (error) {
        client.release(true);
        throw error;
      }
    });
  }

  /** Changes the quantity, and records the status of the order. */
  async touch(id: string): Promise<void> {
    const startMs = performance.now();
    try {
      const { rows } = await this.db.query<{ status: Status }>(
        'UPDATE orders SET quantity = quantity + 1 WHERE id = $1 RETURNING status::text',
        [id],
      );
      this.history.recordState(id, rows[0]?.status ?? 'absent', { startMs, endMs: performance.now() });
    } catch {
      // A failed update reveals nothing about the status.
    }
  }

  async delete(id: string): Promise<void> {
    const startMs = performance.now();
    await this.#change(id, 'deleted', async () => {
      const { rows } = await this.db.query<{ status: Status }>(
        'DELETE FROM orders WHERE id = $1 RETURNING status::text',
        [id],
      );
      const status = rows[0]?.status;
      this.history.recordState(id, status ?? 'absent', { startMs, endMs: performance.now() });
      return status !== undefined;
    });
  }

  /** @param write returns whether it changed the order */
  async #change(id: string, change: Change, write: () => Promise<boolean>): Promise<void> {
    const startMs = performance.now();
    try {
      if (await write()) {
        this.history.recordChange(id, change, { startMs, endMs: performance.now() });
      }
    } catch {
      this.history.recordUncertainChange(id, change, startMs);
    }
  }
}
