import pg from 'pg';
import {
  type BlockVersionsRow,
  parseListVersion,
  SELECT_BLOCK_VERSIONS,
  SELECT_LIST_VERSION,
} from '../../src/orders/list/list-version.js';
import { alterColumn } from '../helpers/alter-column.js';
import type { SeededRandom } from '../helpers/seeded-random.js';

/** A lock of another writer, a table in use, a conflict of snapshots, a deadlock, an id that another writer took. */
const EXPECTED_FAILURES = new Set(['55P03', '55006', '40001', '40P01', '23505']);

/** Ids at both ends of int64, around the borders of blocks, and far apart. */
const IDS = [
  ...['-9223372036854775808', '-9223372036854775807', '-16385', '-16384', '-1', '0', '1', '2', '16383', '16384'],
  ...['16385', '32768', '5000000000', '9007199254740993', '9223372036854775806', '9223372036854775807'],
];

/** The list, formatted by PostgreSQL. */
const LIST_AS_JSON = `
  SELECT coalesce(string_agg(
    '{"id":' || id || ',"petId":' || pet_id || ',"quantity":' || quantity ||
    coalesce(',"shipDate":"' || to_char(ship_date AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') || '"', '') ||
    ',"complete":' || complete || '}', ',' ORDER BY id), '') AS text FROM orders`;

const BLOCKS_AS_TEXT = `
  SELECT (id >> 14)::text AS block, string_agg(orders.id || ',' || pet_id || ',' || quantity || ',' ||
    coalesce(ship_date::text, '-') || ',' || complete, ';' ORDER BY id) AS text
  FROM orders GROUP BY id >> 14`;

export interface Observation {
  readonly name: string;
  readonly text: string;
  readonly blocks: ReadonlyMap<string, string>;
}

/** Checks that a version never names two different contents. */
export class Witness {
  readonly #contents = new Map<string, string>();

  see(name: string, content: string): void {
    const known = this.#contents.get(name);
    if (known !== undefined && known !== content) {
      throw new Error(`The version ${name} names both\n${known}\nand\n${content}`);
    }
    this.#contents.set(name, content);
  }
}

/** The list and its versions in one snapshot, as a list of the service reads them. */
export async function observe(url: string): Promise<Observation> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; LOCK TABLE orders IN ACCESS SHARE MODE');
    const versions = await client.query<BlockVersionsRow>(SELECT_BLOCK_VERSIONS);
    const name = await client.query<{ name: string }>(SELECT_LIST_VERSION);
    const list = await client.query<{ text: string }>(LIST_AS_JSON);
    const texts = await client.query<{ block: string; text: string }>(BLOCKS_AS_TEXT);
    await client.query('COMMIT');
    const version = parseListVersion(versions.rows[0]!);
    expect(version.name).toBe(name.rows[0]!.name);
    const textOf = new Map(texts.rows.map(({ block, text }) => [block, text]));
    const known = new Set(version.blocks.map(({ id }) => id.toString()));
    // A block without a version would be missing from the list.
    expect([...textOf.keys()].filter((block) => !known.has(block))).toEqual([]);
    return {
      name: version.name,
      text: `[${list.rows[0]!.text}]`,
      blocks: new Map(version.blocks.map(({ id, version: of }) => [`${id}@${of}`, textOf.get(id.toString()) ?? ''])),
    };
  } finally {
    await client.end();
  }
}

/** A writer whose transactions extend over several steps. */
export class Writer {
  #isOpen = false;
  #savepoints = 0;
  #failed = false;

  constructor(
    private readonly client: pg.Client,
    private readonly random: SeededRandom,
    private readonly name: string,
  ) {}

  /** Executes one statement. A statement that waits too long for another writer fails its transaction. */
  async step(): Promise<void> {
    const { random } = this;
    if (!this.#isOpen) {
      await this.client.query(`BEGIN ISOLATION LEVEL ${random.pick(['READ COMMITTED', 'REPEATABLE READ'])}`);
      this.#isOpen = true;
      this.#failed = false;
      this.#savepoints = 0;
    }
    if (this.#failed || random.chance(0.25)) {
      await this.end();
    } else if (random.chance(0.15)) {
      this.#savepoints++;
      await this.#run(`SAVEPOINT s${this.#savepoints}`);
    } else if (this.#savepoints > 0 && random.chance(0.3)) {
      await this.#run(`ROLLBACK TO SAVEPOINT s${1 + random.below(this.#savepoints)}`);
    } else {
      await this.#run(this.#statement());
    }
  }

  async end(): Promise<void> {
    if (!this.#isOpen) {
      return;
    }
    this.#isOpen = false;
    if (!this.#failed && this.random.chance(0.2)) {
      await this.client.query(`PREPARE TRANSACTION '${this.name}'`);
      await this.client.query(`${this.random.pick(['COMMIT', 'ROLLBACK'])} PREPARED '${this.name}'`);
      return;
    }
    await this.client.query(this.random.chance(0.75) ? 'COMMIT' : 'ROLLBACK');
  }

  #statement(): string {
    const { random } = this;
    const id = random.pick(IDS);
    const other = random.pick(IDS);
    return random.pick([
      `INSERT INTO orders (id, pet_id, quantity) VALUES (${id}, ${random.below(9)}, 1) ON CONFLICT DO NOTHING`,
      `INSERT INTO orders (id, pet_id, quantity) SELECT n * 16000, n, 1 FROM generate_series(1, 5) AS n ON CONFLICT DO NOTHING`,
      `INSERT INTO orders (id, pet_id, quantity) VALUES (${id}, 7, 1) ON CONFLICT (id) DO UPDATE SET pet_id = orders.pet_id + 1`,
      `UPDATE orders SET pet_id = pet_id + 1 WHERE id = ${id}`,
      `UPDATE orders SET pet_id = pet_id WHERE id = ${id}`,
      `UPDATE orders SET quantity = quantity % 5 + 1`,
      `UPDATE orders SET ship_date = '2026-12-01T10:00:00Z'::timestamptz + interval '1 day' * ${random.below(3)} WHERE id <= ${id}`,
      `UPDATE orders SET ship_date = NULL WHERE id = ${id}`,
      `UPDATE orders SET status = 'shipped', complete = true WHERE id = ${id} AND status = 'pending'`,
      `UPDATE orders SET id = ${other} WHERE id = ${id} AND NOT EXISTS (SELECT FROM orders WHERE id = ${other})`,
      `UPDATE orders SET status = 'cancelled', cancelled_at = now() WHERE id >= ${id} AND status = 'pending'`,
      `DELETE FROM orders WHERE id = ${id}`,
      'SELECT compact_order_list_changes()',
      random.pick([
        'TRUNCATE orders',
        'ALTER TABLE orders ALTER COLUMN created_at TYPE timestamptz(6)',
        'ALTER TABLE orders ALTER COLUMN created_at TYPE timestamptz(3)',
        alterColumn('pet_id', `bigint USING pet_id + ${random.below(3)}`),
        'DELETE FROM orders',
      ]),
    ]);
  }

  async #run(statement: string): Promise<void> {
    try {
      await this.client.query(statement);
    } catch (error) {
      if (!EXPECTED_FAILURES.has((error as { code?: string }).code ?? '')) {
        throw error;
      }
      this.#failed = true;
    }
  }
}

export async function connectWriter(url: string): Promise<pg.Client> {
  const client = new pg.Client(url);
  await client.connect();
  await client.query("SET lock_timeout = '50ms'");
  return client;
}
