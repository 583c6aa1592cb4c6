import pg from 'pg';
import { migrate } from '../../dist/embedded/migrate.js';
import { seedOrders } from '../../dist/orders/seed-orders.js';
import { insertKeys } from './keys.mjs';

const TEMPLATE = 'bench_template';
const CHECKED_ORDERS = 1_000;

/**
 * The benchmark's databases, made when they are first asked for: one per number of orders and purpose, so that every
 * contestant reads the same rows and a cancel run never changes what a list run reads.
 */
export class Databases {
  #made = new Map();

  constructor(server, keys) {
    this.server = server;
    this.keys = keys;
  }

  async prepare() {
    await this.server.ensureDatabase(TEMPLATE);
    const url = this.server.url(TEMPLATE);
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
   * Orders that are all pending. Half of each page is left free, so that a cancel finds room on its page in every round
   * and not only after the first has made some. All pages are written once after a checkpoint: the first change of
   * a page after a checkpoint costs a full page in the log, which would fall on whoever came first.
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

  /** A thousand seeded orders for one contestant to be checked on. */
  forCheck(number) {
    return this.#once(`bench_check_${number}`, (client) => seedOrders(client, CHECKED_ORDERS));
  }

  async close() {
    await Promise.all(Array.from(this.#made.values(), async (database) => (await database).client.end()));
  }

  #once(name, fill) {
    let database = this.#made.get(name);
    if (database === undefined) {
      database = this.#make(name, fill);
      this.#made.set(name, database);
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

  /** Makes cancelled orders pending again, and removes what both changes left behind. */
  async resetCancelled() {
    await this.client.query("UPDATE orders SET status = 'pending', cancelled_at = NULL WHERE status = 'cancelled'");
    await this.client.query('VACUUM orders');
  }

  /** The whole list as JSON text, made by PostgreSQL. */
  async listText() {
    const { rows } = await this.client.query(LIST_TEXT);
    return rows[0].text;
  }

  /** How many bytes the whole list has as JSON without blanks; what every contestant's answer is checked against. */
  async listBytes() {
    const { rows } = await this.client.query(LIST_BYTES);
    return Number(rows[0].bytes);
  }
}

/** Two brackets, and a comma less than there are orders. Dates have 24 characters: milliseconds and `Z`. */
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
