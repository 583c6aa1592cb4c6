import type pg from 'pg';
import { call } from '../helpers/api.js';
import type { OrderRow } from '../helpers/builders.js';
import { UndocumentedResponse } from '../helpers/contract.js';
import { type SeededRandom, withSeed } from '../helpers/seeded-random.js';
import { waitFor } from '../helpers/wait-for.js';
import { Ledger } from './checkers/ledger.js';
import { ListHistory } from './checkers/list-history.js';
import { type Interval, OrderHistory } from './checkers/order-history.js';
import { OrderWriter } from './order-writer.js';

export interface TrafficOptions {
  /** The services at present; a restarted service has another port. */
  readonly services: () => readonly { readonly baseUrl: string }[];
  readonly db: pg.Pool;
  /** A key whose limits are out of reach. */
  readonly key: string;
  readonly clients: number;
  readonly ledgers: number;
}

/** Runs traffic while `work` runs, and checks all responses, from before to after it, against the final orders. */
export async function withTraffic(
  options: TrafficOptions,
  work: (traffic: OrderTraffic, random: SeededRandom) => Promise<void>,
): Promise<void> {
  await withSeed(async (random) => {
    const traffic = new OrderTraffic(options, random.fork());
    await traffic.start();
    try {
      await work(traffic, random);
    } finally {
      await traffic.stop();
    }
    expect(await traffic.violations()).toEqual([]);
  });
}

type Action = 'cancel' | 'list' | 'poll' | 'insert' | 'ship' | 'touch' | 'delete';

/** Mostly cancels, and enough of the others that clients meet orders in every state. */
const ACTIONS: readonly Action[] = [
  ...Array.from({ length: 10 }, () => 'cancel' as const),
  ...['list', 'poll', 'insert', 'insert', 'insert', 'ship', 'ship', 'touch', 'touch', 'delete'],
] as Action[];

/**
 * Concurrent clients that cancel and list orders over all services, and change them in the database, at random. All
 * responses are recorded and checked. No response, or a 503, leaves open whether the change was made; an undocumented
 * response is a violation.
 */
export class OrderTraffic {
  readonly orders = new OrderHistory();
  readonly lists: ListHistory;
  /** Number of responses by status and code. */
  readonly responses = new Map<string, number>();
  readonly ledgers: readonly Ledger[];
  readonly #writer: OrderWriter;
  readonly #violations: string[] = [];
  #tag: string | undefined;
  #stopped = false;
  #running: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly options: TrafficOptions,
    private readonly random: SeededRandom,
  ) {
    this.ledgers = Array.from({ length: options.ledgers }, (_, index) => new Ledger(index + 1, options.db));
    this.lists = new ListHistory(this.ledgers);
    this.#writer = new OrderWriter(options.db, this.orders);
  }

  async start(): Promise<void> {
    for (const ledger of this.ledgers) {
      await ledger.insertCounters();
    }
    await this.#writer.insertFirstOrders();
    const clients = Array.from({ length: this.options.clients }, () => this.#client(this.random.fork()));
    const writers = this.ledgers.map(async (ledger) => {
      while (!this.#stopped) {
        await ledger.change(() => this.#stopped);
      }
    });
    this.#running = Promise.all([...clients, ...writers]);
  }

  /** @param response status and code, such as `404 order_not_found` */
  count(response: string): number {
    return this.responses.get(response) ?? 0;
  }

  /** Number of responses so far. */
  get total(): number {
    return [...this.responses.values()].reduce((sum, count) => sum + count, 0);
  }

  /** Waits until so many more responses of each kind have arrived. */
  async until(more: Readonly<Record<string, number>>, withinMs = 60_000): Promise<void> {
    const before = new Map(this.responses);
    const isReached = (): boolean =>
      Object.entries(more).every(([name, count]) => this.count(name) >= (before.get(name) ?? 0) + count);
    await waitFor(isReached, () => `${JSON.stringify(more)} more responses have arrived`, { withinMs });
  }

  /** Waits for the pending requests and stops. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  /** Reads the final status of all orders and checks everything that was recorded. */
  async violations(): Promise<string[]> {
    const startMs = performance.now();
    const { rows } = await this.options.db.query<{ id: string; status: OrderRow['status'] }>(
      'SELECT id, status::text FROM orders',
    );
    const when = { startMs, endMs: performance.now() };
    const states = new Map(rows.map(({ id, status }) => [id, status]));
    for (const id of this.orders.orders) {
      this.orders.recordState(id, states.get(id) ?? 'absent', when);
    }
    return [...this.#violations, ...this.orders.violations(), ...this.lists.violations()];
  }

  async #client(random: SeededRandom): Promise<void> {
    while (!this.#stopped) {
      await this.#act(random.pick(ACTIONS), random);
    }
  }

  async #act(action: Action, random: SeededRandom): Promise<void> {
    const { baseUrl } = random.pick(this.options.services());
    const writer = this.#writer;
    switch (action) {
      case 'cancel':
        return this.#cancel(baseUrl, writer.pick(random));
      case 'list':
        return this.#list(baseUrl);
      case 'poll':
        return this.#list(baseUrl, this.#tag);
      case 'insert':
        return writer.insert();
      case 'ship':
        return writer.ship(writer.pick(random), random.chance(0.3));
      case 'touch':
        return writer.touch(writer.pick(random));
      case 'delete':
        return writer.delete(writer.pick(random));
    }
  }

  async #cancel(baseUrl: string, id: string): Promise<void> {
    const startMs = performance.now();
    const response = await this.#request(baseUrl, 'DELETE', `/store/orders/${id}`);
    const when = { startMs, endMs: performance.now() };
    switch (response?.name) {
      case '204':
        this.orders.recordChange(id, 'cancelled', when);
        return;
      case '409 order_already_cancelled':
        this.orders.recordState(id, 'cancelled', when);
        return;
      case '409 order_already_shipped':
        this.orders.recordState(id, 'shipped', when);
        return;
      case '404 order_not_found':
        this.orders.recordState(id, 'absent', when);
        return;
      default:
        this.orders.recordUncertainChange(id, 'cancelled', startMs);
        this.#expectUnavailable(response?.name);
    }
  }

  async #list(baseUrl: string, tag?: string): Promise<void> {
    const startMs = performance.now();
    const headers: Record<string, string> = tag === undefined ? {} : { 'If-None-Match': tag };
    const response = await this.#request(baseUrl, 'GET', '/store/orders', headers);
    const when = { startMs, endMs: performance.now() };
    const etag = response?.headers.get('etag') ?? undefined;
    if (response?.name === '304') {
      this.lists.recordNotModified(etag ?? '', when);
    } else if (response?.name === '200') {
      this.#recordList(response.body, etag, when);
      this.#tag = etag;
    } else {
      this.#expectUnavailable(response?.name);
    }
  }

  #recordList(body: string, etag: string | undefined, when: Interval): void {
    const listed = this.lists.recordList(body, etag, when);
    for (const id of listed === undefined ? [] : this.orders.orders) {
      const order = listed?.get(id);
      this.orders.recordState(id, order === undefined ? 'absent' : order.complete ? 'shipped' : 'unshipped', when);
    }
  }

  /** @returns undefined without a complete response */
  async #request(
    baseUrl: string,
    method: string,
    path: string,
    headers?: Record<string, string>,
  ): Promise<{ name: string; headers: Headers; body: string } | undefined> {
    try {
      const response = await call(baseUrl, method, path, this.options.key, headers);
      const body = await response.text();
      const code = response.status < 400 ? '' : ` ${(JSON.parse(body) as { code: string }).code}`;
      const name = `${response.status}${code}`;
      this.#count(name);
      return { name, headers: response.headers, body };
    } catch (error) {
      if (error instanceof UndocumentedResponse) {
        this.#violations.push(error.message);
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
      this.#violations.push(`unexpected response ${name}`);
    }
  }
}
