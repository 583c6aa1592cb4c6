import pg from 'pg';
import { migrate } from '../../dist/cli/embedded/migrate.js';
import { seedOrders } from '../../dist/orders/seed-orders.js';
import { insertKeys } from './keys.mjs';

const TEMPLATE = 'bench_template';
const CHECKED_ORDERS = 1_000;

/**
 * The databases of the benchmark, created on first use: one per number of orders and purpose. All contestants read the
 * same rows, and a cancel run never changes the rows of a list run.
 */
export class Databases {
  #databases = new Map();

  constructor(server, keys) {
    this.server = server;
    this.keys = keys;
  }

  async prepare() {
    const url = this.server.url(TEMPLATE);
    await withClient(this.server.url('postgres'), (client) => client.query(`CREATE DATABASE ${TEMPLATE}`));
    await migrate(url);
    await withClient(url, (client) => insertKeys(client, this.keys));
  }

  /** Seeded orders of every status. */
  forLists(orders) {
    return this.#once(`bench_list_${orders}`, async (client) => {
      await seedOrders(client, orders);
      await client.query('VACUUM (ANALYZE) orders');
    });
  }

  /**
   * Orders that are all pending. Half of each page is free, so that a cancel finds room on its page in every round. Each
   * page is written once after a checkpoint: the first change of a page after a checkpoint writes the whole page to the
   * log, which only the first contestant would pay for.
   */
  forCancels(orders) {
    return this.#once(`bench_cancel_${orders}`, async (client) => {
      await client.query('ALTER TABLE orders SET (fillfactor = 50)');
      await seedOrders(client, orders);
      await client.query('CHECKPOINT');
      await client.query("UPDATE orders SET status = 'pending', complete = false, cancelled_at = NULL");
      await client.query('VACUUM (ANALYZE) orders');
    });
  }

  /** A thousand seeded orders, for the check of one contestant. */
  forCheck(number) {
    return this.#once(`bench_check_${number}`, (client) => seedOrders(client, CHECKED_ORDERS));
  }

  async close() {
    await Promise.all(Array.from(this.#databases.values(), async (database) => (await database).client.end()));
  }

  #once(name, fill) {
    let database = this.#databases.get(name);
    if (database === undefined) {
      database = this.#make(name, fill);
      this.#databases.set(name, database);
    }
    return database;
  }

  async #make(name, fill) {
    await withClient(this.server.url('postgres'), (client) =>
      client.query(`CREATE DATABASE ${name} TEMPLATE ${TEMPLATE} STRATEGY file_copy`),
    );
    const client = new pg.Client(this.server.url(name));
    client.on('error', () => undefined);
    await client.connect();
    await fill(client);
    return new Database(this.server.url(name), client);
  }
}

class Database {
  constructor(url, client) {
    this.url = url;
    this.client = client;
  }

  /** Makes cancelled orders pending again and removes the dead rows of both changes. */
  async resetCancelled() {
    await this.client.query("UPDATE orders SET status = 'pending', cancelled_at = NULL WHERE status = 'cancelled'");
    await this.client.query('VACUUM orders');
  }

  /** The whole list as JSON text, built by PostgreSQL. */
  async listText() {
    const { rows } = await this.client.query(LIST_TEXT);
    return rows[0].text;
  }

  /** The size of the whole list as JSON without white space; every contestant's list is checked against it. */
  async listBytes() {
    const { rows } = await this.client.query(LIST_BYTES);
    return Number(rows[0].bytes);
  }
}

/** Two brackets, and one comma fewer than orders. Dates have 24 characters, with milliseconds and `Z`. */
const LIST_BYTES = `
  SELECT 1 + greatest(1, count(*)) + coalesce(sum(octet_length(concat(
    '{"id":', id, ',"petId":', pet_id, ',"quantity":', quantity,
    CASE WHEN ship_date IS NOT NULL THEN concat(',"shipDate":"', repeat('x', 24), '"') END,
    ',"complete":', CASE WHEN complete THEN 'true' ELSE 'false' END, '}'))), 0) AS bytes
  FROM orders`;

const LIST_TEXT = `
  SELECT concat('[', string_agg(concat(
    '{"id":', id, ',"petId":', pet_id, ',"quantity":', quantity,
    CASE WHEN ship_date IS NOT NULL
         THEN concat(',"shipDate":"', to_char(ship_date AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), '"') END,
    ',"complete":', CASE WHEN complete THEN 'true' ELSE 'false' END, '}'), ',' ORDER BY id), ']') AS text
  FROM orders`;

async function withClient(url, work) {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
