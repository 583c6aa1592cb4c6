import pg from 'pg';
import { alterColumn } from '../helpers/alter-column.js';
import type { SeededRandom } from '../helpers/seeded-random.js';
import { LIST_AS_JSON, MERGE, MERGE_ALL } from './list-writer.js';

/** A lock that another session holds for too long, a table in use, a deadlock. */
const EXPECTED_FAILURES = new Set(['55P03', '55006', '40P01']);

const TRIGGERS = ['insert', 'update', 'delete'].map((event) => `orders_note_${event}`);
const DISABLE = 'ALTER TABLE orders DISABLE TRIGGER ALL';
export const ENABLE = TRIGGERS.map((name) => `ALTER TABLE orders ENABLE ALWAYS TRIGGER ${name}`).join('; ');

/** Keeps the definitions of the triggers, for {@link SCHEMA_CHANGES} to restore. */
export const SAVE_TRIGGERS = `
  CREATE TABLE saved AS SELECT pg_get_triggerdef(oid) AS text FROM pg_trigger WHERE tgname = ANY ('{${TRIGGERS.join()}}')`;
const RESTORE_TRIGGERS = `
  DO $$ DECLARE each text; BEGIN FOR each IN SELECT text FROM saved LOOP EXECUTE each; END LOOP; END $$; ${ENABLE}`;

/** A change with which the list has no version, and what undoes it. */
export interface SchemaChange {
  /** Completes "while …". */
  readonly what: string;
  readonly apply: string;
  readonly undo: string;
}

export const SCHEMA_CHANGES: readonly SchemaChange[] = [
  { what: 'one trigger is disabled', apply: 'ALTER TABLE orders DISABLE TRIGGER orders_note_update', undo: ENABLE },
  {
    what: 'the triggers are missing',
    apply: TRIGGERS.map((name) => `DROP TRIGGER ${name} ON orders`).join('; '),
    undo: RESTORE_TRIGGERS,
  },
  {
    what: 'the trigger of the tokens is disabled',
    apply: 'ALTER TABLE order_list_changes DISABLE TRIGGER ALL',
    undo: 'ALTER TABLE order_list_changes ENABLE ALWAYS TRIGGER order_list_changes_renew',
  },
  {
    what: 'another table has become its child',
    apply: `CREATE TABLE child (LIKE orders INCLUDING ALL); INSERT INTO child (id, pet_id, quantity) VALUES (8888, 8, 8);
      ALTER TABLE child INHERIT orders`,
    undo: 'ALTER TABLE child NO INHERIT orders; DROP TABLE child; ANALYZE orders',
  },
  {
    what: 'the table is partitioned',
    apply: `ALTER TABLE orders RENAME TO orders_plain;
      CREATE TABLE orders (LIKE orders_plain INCLUDING DEFAULTS) PARTITION BY RANGE (id);
      CREATE TABLE orders_low PARTITION OF orders FOR VALUES FROM (MINVALUE) TO (10000);
      CREATE TABLE orders_high PARTITION OF orders FOR VALUES FROM (10000) TO (MAXVALUE);
      INSERT INTO orders SELECT * FROM orders_plain`,
    undo: 'DROP TABLE orders; ALTER TABLE orders_plain RENAME TO orders',
  },
  {
    what: 'the table has row-level security',
    apply: 'ALTER TABLE orders ENABLE ROW LEVEL SECURITY',
    undo: 'ALTER TABLE orders DISABLE ROW LEVEL SECURITY',
  },
  // A crash empties an unlogged table.
  { what: 'the table is unlogged', apply: 'ALTER TABLE orders SET UNLOGGED', undo: 'ALTER TABLE orders SET LOGGED' },
  {
    what: 'the tokens have been truncated',
    apply: 'TRUNCATE order_list_changes',
    undo: 'SELECT renew_order_list_versions()',
  },
];

/** What gives the list another version although no trigger fires, or only those for a replica do. */
export const LOADS: readonly (readonly [what: string, statements: string])[] = [
  ['the table was truncated', 'TRUNCATE orders'],
  ['a column was rewritten', alterColumn('quantity', 'integer USING quantity + 1')],
  ['orders changed with disabled triggers', `${DISABLE}; UPDATE orders SET quantity = quantity + 1; ${ENABLE}`],
  [
    'orders were loaded by a replica role',
    `SET LOCAL session_replication_role = replica; DELETE FROM orders WHERE id < 16000;
     INSERT INTO orders (id, pet_id, quantity) SELECT n, n, 1 FROM generate_series(100, 15999, 300) AS n`,
  ],
];

/**
 * Changes orders and the tables and triggers that the list relies on, each step in one transaction, and keeps what the table held after
 * each.
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
      const change = this.random.pick(SCHEMA_CHANGES);
      this.#applied = (await this.#run(change.apply)) ? change : undefined;
    } else {
      await this.#undo();
    }
    await this.#remember();
  }

  /** Makes the tables what they were. */
  async restore(): Promise<void> {
    while (this.#applied !== undefined) {
      this.#steps++;
      await this.#undo();
      await this.#remember();
    }
  }

  async end(): Promise<void> {
    await this.client.end();
  }

  async #undo(): Promise<void> {
    if (this.#applied !== undefined && (await this.#run(this.#applied.undo))) {
      this.#applied = undefined;
    }
  }

  #write(): string {
    const id = this.random.pick([1, 2, 3, 16_383, 16_384, 50_000]);
    return this.random.pick([
      `DELETE FROM orders WHERE id = ${id}; INSERT INTO orders (id, pet_id, quantity) VALUES (${id}, ${this.random.below(99)}, 1)`,
      `UPDATE orders SET quantity = quantity + 1 WHERE id >= ${id}`,
      `DELETE FROM orders WHERE id = ${id}`,
      'DELETE FROM order_list_changes WHERE random() < 0.5',
      this.random.pick([MERGE, MERGE_ALL]),
      // They enable the triggers, and alter a column that one of them compares.
      this.#applied === undefined ? this.random.pick(LOADS)[1] : 'TRUNCATE orders',
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
