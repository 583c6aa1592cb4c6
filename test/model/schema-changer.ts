import pg from 'pg';
import type { SeededRandom } from '../helpers/seeded-random.js';
import { LIST_AS_JSON } from './list-writer.js';

/** A lock that somebody else holds for too long, a table in use, a deadlock. */
const EXPECTED_FAILURES = new Set(['55P03', '55006', '40P01']);

const TRIGGERS = ['insert', 'update', 'delete'].map((event) => `orders_note_${event}`);
export const DISABLE = 'ALTER TABLE orders DISABLE TRIGGER ALL';
export const ENABLE = TRIGGERS.map((name) => `ALTER TABLE orders ENABLE ALWAYS TRIGGER ${name}`).join('; ');
export const NOTHING_FUNCTION =
  'CREATE OR REPLACE FUNCTION note_order_list_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$';
/** Puts a copy without triggers in the place of the table. */
export const SWAP = `
  CREATE TABLE orders_new (LIKE orders INCLUDING ALL);
  INSERT INTO orders_new SELECT * FROM orders;
  ALTER TABLE orders RENAME TO orders_old;
  ALTER TABLE orders_new RENAME TO orders`;
export const PARTITION = `
  ALTER TABLE orders RENAME TO orders_plain;
  CREATE TABLE orders (LIKE orders_plain INCLUDING DEFAULTS) PARTITION BY RANGE (id);
  CREATE TABLE orders_low PARTITION OF orders FOR VALUES FROM (MINVALUE) TO (10000);
  CREATE TABLE orders_high PARTITION OF orders FOR VALUES FROM (10000) TO (MAXVALUE);
  INSERT INTO orders SELECT * FROM orders_plain`;
const SAVE_TRIGGERS = `
  CREATE TABLE saved AS
    SELECT pg_get_functiondef('note_order_list_change'::regproc) AS text
    UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = ANY ('{${TRIGGERS.join(',')}}')`;
const RESTORE = (what: string): string =>
  `DO $do$ DECLARE each text; BEGIN FOR each IN SELECT text FROM saved WHERE text LIKE '${what}%' LOOP EXECUTE each; END LOOP; END $do$`;

/** A change of what the list relies on, and what undoes it. */
interface SchemaChange {
  readonly apply: string;
  readonly undo: string;
}

/** Each may be applied in one state of the tables only, that of the migrations. */
const CHANGES: readonly SchemaChange[] = [
  { apply: DISABLE, undo: ENABLE },
  { apply: 'ALTER TABLE orders DISABLE TRIGGER orders_note_update', undo: ENABLE },
  { apply: 'SET session_replication_role = replica', undo: 'RESET session_replication_role' },
  {
    apply: TRIGGERS.map((name) => `DROP TRIGGER ${name} ON orders`).join('; '),
    undo: `${RESTORE('CREATE TRIGGER')}; ${ENABLE}`,
  },
  { apply: NOTHING_FUNCTION, undo: RESTORE('CREATE OR REPLACE FUNCTION') },
  { apply: SWAP, undo: 'DROP TABLE orders; ALTER TABLE orders_old RENAME TO orders' },
  {
    apply: `ALTER TABLE orders ADD COLUMN amount integer NOT NULL DEFAULT 5;
      ALTER TABLE orders RENAME COLUMN quantity TO old; ALTER TABLE orders ALTER COLUMN old SET DEFAULT 1; ALTER TABLE orders RENAME COLUMN amount TO quantity`,
    undo: `ALTER TABLE orders DROP COLUMN quantity; ALTER TABLE orders RENAME COLUMN old TO quantity;
      ALTER TABLE orders ALTER COLUMN quantity DROP DEFAULT`,
  },
  {
    apply: 'CREATE TABLE child () INHERITS (orders); INSERT INTO child (id, pet_id, quantity) VALUES (9999, 7, 7)',
    undo: 'DROP TABLE child; ANALYZE orders',
  },
  {
    apply: `CREATE TABLE child (LIKE orders INCLUDING ALL); INSERT INTO child (id, pet_id, quantity) VALUES (8888, 8, 8);
      ALTER TABLE child INHERIT orders`,
    undo: 'ALTER TABLE child NO INHERIT orders; DROP TABLE child; ANALYZE orders',
  },
  { apply: PARTITION, undo: 'DROP TABLE orders; ALTER TABLE orders_plain RENAME TO orders' },
  { apply: 'ALTER TABLE orders ENABLE ROW LEVEL SECURITY', undo: 'ALTER TABLE orders DISABLE ROW LEVEL SECURITY' },
  { apply: 'ALTER TABLE orders SET UNLOGGED', undo: 'ALTER TABLE orders SET LOGGED' },
  { apply: 'ALTER TABLE order_list_changes SET UNLOGGED', undo: 'ALTER TABLE order_list_changes SET LOGGED' },
  { apply: 'TRUNCATE order_list_changes', undo: 'SELECT renew_order_list_versions()' },
];

/**
 * Changes orders and the tables, triggers and functions that the list relies on, each step in one transaction, and keeps what
 * the table held after each.
 */
export class SchemaChanger {
  readonly #history: string[] = [];
  #applied: SchemaChange | undefined;
  #steps = 0;

  private constructor(
    private readonly client: pg.Client,
    private readonly random: SeededRandom,
  ) {}

  static async connect(url: string, random: SeededRandom): Promise<SchemaChanger> {
    const client = new pg.Client(url);
    await client.connect();
    await client.query(`SET lock_timeout = '500ms'; ${SAVE_TRIGGERS}`);
    const changer = new SchemaChanger(client, random);
    await changer.#remember();
    return changer;
  }

  /** Steps that have begun. */
  get steps(): number {
    return this.#steps;
  }

  /** What the table held after each step that has ended; the first before all of them. */
  get history(): readonly string[] {
    return this.#history;
  }

  async step(): Promise<void> {
    this.#steps++;
    if (this.random.chance(0.5)) {
      await this.#run(this.#write());
    } else if (this.#applied === undefined) {
      const change = this.random.pick(CHANGES);
      this.#applied = (await this.#run(change.apply)) ? change : undefined;
    } else {
      await this.#undo();
    }
    await this.#remember();
  }

  /** Makes the tables what they were. */
  async undo(): Promise<void> {
    this.#steps++;
    await this.#undo();
    await this.#remember();
  }

  async #undo(): Promise<void> {
    if (this.#applied !== undefined && (await this.#run(this.#applied.undo))) {
      this.#applied = undefined;
    }
  }

  /** Whether the tables are as the migrations made them. */
  get isIntact(): boolean {
    return this.#applied === undefined;
  }

  async end(): Promise<void> {
    await this.client.end();
  }

  #write(): string {
    const id = this.random.pick([1, 2, 3, 16_383, 16_384, 50_000]);
    return this.random.pick([
      `DELETE FROM orders WHERE id = ${id}; INSERT INTO orders (id, pet_id, quantity) VALUES (${id}, ${this.random.below(99)}, 1)`,
      `UPDATE orders SET quantity = quantity + 1 WHERE id >= ${id}`,
      `DELETE FROM orders WHERE id = ${id}`,
      'TRUNCATE orders',
      'DELETE FROM order_list_changes WHERE random() < 0.5',
      'SELECT compact_order_list_changes(0)',
    ]);
  }

  /** @returns false when the step has failed because of the lists that are read meanwhile */
  async #run(statements: string): Promise<boolean> {
    try {
      await this.client.query(statements);
      return true;
    } catch (error) {
      if (!EXPECTED_FAILURES.has((error as { code?: string }).code ?? '')) {
        throw error;
      }
      return false;
    }
  }

  async #remember(): Promise<void> {
    const { rows } = await this.client.query<{ text: string }>(LIST_AS_JSON);
    this.#history.push(`[${rows[0]!.text}]`);
  }
}
