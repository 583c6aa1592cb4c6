import pg from 'pg';
import {
  etagOf,
  type NameRow,
  SELECT_NAME,
  SELECT_SUMS,
  sumsOf,
  type SumRow,
  versionOf,
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

/** Merges the rows of each block, after rows that change no version have made them enough. */
export const MERGE = `INSERT INTO order_list_changes SELECT 0, 0 FROM generate_series(1, 300);
  SELECT merge_order_list_changes(0, 1000)`;
/** Merges all rows into the one without a block, after rows that change no version have named enough blocks. */
export const MERGE_ALL = `INSERT INTO order_list_changes SELECT n, 0 FROM generate_series(1, 17000) AS n;
  SELECT merge_order_list_changes(0, 1000)`;

/** The elements of the list, formatted by PostgreSQL. */
export const LIST_AS_JSON = `
  SELECT coalesce(string_agg(
    '{"id":' || id || ',"petId":' || pet_id || ',"quantity":' || quantity ||
    coalesce(',"shipDate":"' || to_char(ship_date AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') || '"', '') ||
    ',"complete":' || complete || '}', ',' ORDER BY id), '') AS text FROM orders`;

export interface Observation {
  readonly etag: string;
  readonly text: string;
  /** The elements of each piece, by its key. */
  readonly pieces: ReadonlyMap<string, string>;
}

/** Checks that a version never names two different contents. */
export class Witness {
  readonly #contents = new Map<string, string>();

  /** Versions that have been seen. */
  get size(): number {
    return this.#contents.size;
  }

  see(name: string, content: string): void {
    const known = this.#contents.get(name);
    if (known !== undefined && known !== content) {
      throw new Error(`The version ${name} names both\n${known}\nand\n${content}`);
    }
    this.#contents.set(name, content);
  }
}

/**
 * The list and its version in one snapshot, as a list of the service reads them.
 * @param blocksPerPiece blocks with orders, of which each piece but the last has so many
 */
export async function observe(url: string, blocksPerPiece = 1): Promise<Observation> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; LOCK TABLE orders IN ACCESS SHARE MODE');
    const { rows: blocks } = await client.query<{ block: string }>(
      'SELECT DISTINCT id >> 14 AS block FROM ONLY orders ORDER BY 1',
    );
    const starts = blocks.map(({ block }) => block).filter((_, index) => index > 0 && index % blocksPerPiece === 0);
    const version = versionOf((await client.query<NameRow>(SELECT_NAME)).rows[0]!);
    const sums = sumsOf((await client.query<SumRow>(SELECT_SUMS, [starts])).rows, starts.length + 1);
    const list = await client.query<{ text: string }>(LIST_AS_JSON);
    const pieces = new Map<string, string>();
    for (const [index, sum] of sums.entries()) {
      const [start, next] = [starts[index - 1], starts[index]];
      const first = String(start === undefined ? -(2n ** 63n) : BigInt(start) << 14n);
      const last = String(next === undefined ? 2n ** 63n - 1n : (BigInt(next) << 14n) - 1n);
      const key = `${version.basis}/${first}/${last}/${sum}`;
      const { rows } = await client.query<{ text: string }>(`${LIST_AS_JSON} WHERE id BETWEEN $1 AND $2`, [
        first,
        last,
      ]);
      pieces.set(key, rows[0]!.text);
    }
    await client.query('COMMIT');
    const text = list.rows[0]!.text;
    // No piece overlaps another one, and none is missing.
    expect([...pieces.values()].filter((piece) => piece !== '').join(',')).toBe(text);
    return { etag: etagOf(version), text: `[${text}]`, pieces };
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
      // Ends those after it.
      this.#savepoints = 1 + random.below(this.#savepoints);
      await this.#run(`ROLLBACK TO SAVEPOINT s${this.#savepoints}`);
    } else {
      await this.#run(this.#statement());
    }
  }

  async end(): Promise<void> {
    if (!this.#isOpen) {
      return;
    }
    this.#isOpen = false;
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
      `UPDATE orders SET quantity = quantity % 5 + 1`,
      `UPDATE orders SET ship_date = '2026-12-01T10:00:00Z'::timestamptz + interval '1 day' * ${random.below(3)} WHERE id <= ${id}`,
      `UPDATE orders SET status = 'shipped', complete = true WHERE id = ${id} AND status = 'pending'`,
      `UPDATE orders SET id = ${other} WHERE id = ${id} AND NOT EXISTS (SELECT FROM orders WHERE id = ${other})`,
      `UPDATE orders SET status = 'cancelled', cancelled_at = now() WHERE id >= ${id} AND status = 'pending'`,
      `DELETE FROM orders WHERE id = ${id}`,
      'SELECT compact_order_list_changes(0)',
      MERGE,
      MERGE_ALL,
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
