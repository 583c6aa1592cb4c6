import { Agent } from 'node:http';
import type pg from 'pg';
import { insertOrder } from '../helpers/builders.js';
import { UndocumentedResponse } from '../helpers/contract.js';
import { type RawResponse, requestRaw } from '../helpers/raw-http.js';
import type { SeededRandom } from '../helpers/seeded-random.js';
import { Ledger } from './ledger.js';
import { ListHistory } from './list-history.js';
import { type Interval, OrderHistory } from './order-history.js';

/** Above the ids of the ledgers' entries and below those of their second counters. */
const FIRST_ORDER_ID = 100_000_000;
/** Orders that clients choose among: few, so that they meet. */
const ORDERS_AT_ONCE = 60;

export interface TrafficOptions {
  /** Where the services are at the moment; a service that is started again has another port. */
  readonly baseUrls: () => readonly string[];
  /** The database itself, for those who insert, ship, touch and delete orders. */
  readonly db: pg.Pool;
  /** With quota for all that comes. */
  readonly key: string;
  readonly random: SeededRandom;
  readonly clients: number;
  readonly ledgers: number;
}

type Action = 'cancel' | 'list' | 'poll' | 'insert' | 'ship' | 'touch' | 'delete';

/** Mostly cancels; enough of all else for an order to be met in each of its states. */
const ACTIONS: readonly Action[] = [
  ...Array.from({ length: 10 }, () => 'cancel' as const),
  ...['list', 'poll', 'insert', 'insert', 'insert', 'ship', 'ship', 'touch', 'touch', 'delete'],
] as Action[];

/**
 * Many clients that do everything that can be done to orders, over all services and in the database beside them, at
 * random and at once, and write down what they were told. An answer that fails to come, or is 503, leaves open whether
 * the change was made; any answer that is not documented is a fault.
 */
export class OrderTraffic {
  readonly orders = new OrderHistory();
  readonly lists: ListHistory;
  /** How often each answer came. */
  readonly responses = new Map<string, number>();
  readonly ledgers: readonly Ledger[];
  readonly #faults: string[] = [];
  readonly #alive: string[] = [];
  readonly #agent = new Agent({ keepAlive: true });
  readonly #tags: string[] = [];
  #inserted = 0;
  #over = false;
  #running: Promise<unknown> = Promise.resolve();

  constructor(private readonly options: TrafficOptions) {
    this.ledgers = Array.from(
      { length: options.ledgers },
      (_, index) => new Ledger(String(index + 1), index + 1, options.db),
    );
    this.lists = new ListHistory(this.ledgers);
  }

  async start(): Promise<void> {
    for (const ledger of this.ledgers) {
      await ledger.open();
    }
    for (let order = 0; order < ORDERS_AT_ONCE; order++) {
      await this.#insert();
    }
    const clients = Array.from({ length: this.options.clients }, () => this.#client(this.options.random.fork()));
    const writers = this.ledgers.map(async (ledger) => {
      while (!this.#over) {
        await ledger.change(() => this.#over);
      }
    });
    this.#running = Promise.all([...clients, ...writers]);
  }

  /** How often the service answered so. */
  count(response: string): number {
    return this.responses.get(response) ?? 0;
  }

  /** Answers so far. */
  get total(): number {
    return [...this.responses.values()].reduce((sum, count) => sum + count, 0);
  }

  /** Lets everybody finish what they are at. */
  async stop(): Promise<void> {
    this.#over = true;
    await this.#running;
    this.#agent.destroy();
  }

  /**
   * Reads what became of the orders and judges all that was told of them.
   * @returns a sentence for each fault; none when all is well
   */
  async faults(): Promise<string[]> {
    const startMs = performance.now();
    const { rows } = await this.options.db.query<{ id: string; status: 'pending' | 'cancelled' | 'shipped' }>(
      'SELECT id, status::text FROM orders',
    );
    const when = { startMs, endMs: performance.now() };
    const states = new Map(rows.map(({ id, status }) => [id, status]));
    for (const id of this.orders.orders) {
      this.orders.saw(id, states.get(id) ?? 'absent', when);
    }
    return [...this.#faults, ...this.orders.faults(), ...this.lists.faults()];
  }

  async #client(random: SeededRandom): Promise<void> {
    while (!this.#over) {
      await this.#act(random.pick(ACTIONS), random);
    }
  }

  async #act(action: Action, random: SeededRandom): Promise<void> {
    const baseUrl = random.pick(this.options.baseUrls());
    switch (action) {
      case 'cancel':
        return this.#cancel(baseUrl, this.#someOrder(random));
      case 'list':
        return this.#list(baseUrl);
      case 'poll':
        return this.#list(baseUrl, this.#tags.at(-1));
      case 'insert':
        return this.#insert();
      case 'ship':
        return this.#ship(this.#someOrder(random), random.chance(0.3));
      case 'touch':
        return this.#touch(this.#someOrder(random));
      case 'delete':
        return this.#delete(this.#someOrder(random));
    }
  }

  /** Mostly one of the newest, which are likely to be pending; now and then one that is gone. */
  #someOrder(random: SeededRandom): string {
    const newest = this.#alive.slice(-ORDERS_AT_ONCE);
    return random.chance(0.6) ? random.pick(newest.slice(-8)) : random.pick(newest);
  }

  async #cancel(baseUrl: string, id: string): Promise<void> {
    const startMs = performance.now();
    const response = await this.#ask({ baseUrl, method: 'DELETE', path: `/store/orders/${id}` });
    const when = { startMs, endMs: performance.now() };
    switch (response?.name) {
      case '204':
        this.orders.changed(id, 'cancelled', when);
        return;
      case '409 order_already_cancelled':
        this.orders.saw(id, 'cancelled', when);
        return;
      case '409 order_already_shipped':
        this.orders.saw(id, 'shipped', when);
        return;
      case '404 order_not_found':
        this.orders.saw(id, 'absent', when);
        return;
      default:
        this.orders.mayHaveChanged(id, 'cancelled', startMs);
        this.#expectUnavailable(response?.name);
    }
  }

  async #list(baseUrl: string, tag?: string): Promise<void> {
    const startMs = performance.now();
    const headers = tag === undefined ? {} : { 'If-None-Match': tag };
    const response = await this.#ask({ baseUrl, method: 'GET', path: '/store/orders', headers });
    const when = { startMs, endMs: performance.now() };
    const etag = response?.headers.etag ?? '';
    if (response?.name === '304') {
      this.lists.sawUnchanged(etag, when);
    } else if (response?.name === '200') {
      this.#readList(response.body.toString(), etag, when);
      this.#tags.push(etag);
    } else {
      this.#expectUnavailable(response?.name);
    }
  }

  #readList(body: string, etag: string, when: Interval): void {
    const listed = this.lists.saw(body, etag, when);
    for (const id of listed === undefined ? [] : this.orders.orders) {
      const order = listed?.get(id);
      this.orders.saw(id, order === undefined ? 'absent' : order.complete ? 'shipped' : 'unshipped', when);
    }
  }

  async #insert(): Promise<void> {
    const id = String(FIRST_ORDER_ID + this.#inserted++);
    const inserted = await this.#inDatabase(id, 'inserted', async () => {
      await insertOrder(this.options.db, { id });
      return true;
    });
    if (inserted === true) {
      this.#alive.push(id);
    }
  }

  /** @param looksFirst holds the order for a moment before it ships it, as careful software does */
  async #ship(id: string, looksFirst: boolean): Promise<void> {
    await this.#inDatabase(id, 'shipped', async () => {
      const client = await this.options.db.connect();
      try {
        await client.query('BEGIN');
        if (looksFirst) {
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

  /** Changes nothing that matters, and says what state the order was in. */
  async #touch(id: string): Promise<void> {
    const startMs = performance.now();
    try {
      const { rows } = await this.options.db.query<{ status: 'pending' | 'cancelled' | 'shipped' }>(
        'UPDATE orders SET quantity = quantity + 1 WHERE id = $1 RETURNING status::text',
        [id],
      );
      this.orders.saw(id, rows[0]?.status ?? 'absent', { startMs, endMs: performance.now() });
    } catch {
      // It tells nothing of the order.
    }
  }

  async #delete(id: string): Promise<void> {
    const startMs = performance.now();
    await this.#inDatabase(id, 'deleted', async () => {
      const { rows } = await this.options.db.query<{ status: 'pending' | 'cancelled' | 'shipped' }>(
        'DELETE FROM orders WHERE id = $1 RETURNING status::text',
        [id],
      );
      const status = rows[0]?.status;
      this.orders.saw(id, status ?? 'absent', { startMs, endMs: performance.now() });
      return status !== undefined;
    });
  }

  /** @returns whether the change was made; undefined when the database failed to say */
  async #inDatabase(
    id: string,
    change: 'inserted' | 'shipped' | 'deleted',
    work: () => Promise<boolean>,
  ): Promise<boolean | undefined> {
    const startMs = performance.now();
    try {
      const made = await work();
      if (made) {
        this.orders.changed(id, change, { startMs, endMs: performance.now() });
      }
      return made;
    } catch {
      this.orders.mayHaveChanged(id, change, startMs);
      return undefined;
    }
  }

  /** @returns undefined when no whole answer came */
  async #ask(request: {
    baseUrl: string;
    method: string;
    path: string;
    headers?: Record<string, string>;
  }): Promise<(RawResponse & { name: string }) | undefined> {
    try {
      const response = await requestRaw(request.baseUrl, { ...request, key: this.options.key, agent: this.#agent });
      const code = response.status < 400 ? '' : ` ${(JSON.parse(response.body.toString()) as { code: string }).code}`;
      const name = `${response.status}${code}`;
      this.#count(name);
      return { ...response, name };
    } catch (error) {
      if (error instanceof UndocumentedResponse) {
        this.#faults.push(error.message);
      }
      this.#count('none');
      return undefined;
    }
  }

  #count(name: string): void {
    this.responses.set(name, this.count(name) + 1);
  }

  #expectUnavailable(name: string | undefined): void {
    if (name !== undefined && name !== '503 service_unavailable') {
      this.#faults.push(`the service answered ${name}`);
    }
  }
}
