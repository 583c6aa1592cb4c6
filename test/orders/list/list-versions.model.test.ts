import { gunzipSync } from 'node:zlib';
import pg from 'pg';
import { etagOf } from '../../../src/orders/list/etag.js';
import {
  type BlockVersionsRow,
  parseListVersion,
  SELECT_BLOCK_VERSIONS,
  SELECT_LIST_VERSION,
} from '../../../src/orders/list/list-version.js';
import { alterColumn } from '../../helpers/alter-column.js';
import { insertKey } from '../../helpers/builders.js';
import { requestRaw } from '../../helpers/raw-http.js';
import { type SeededRandom, withSeed } from '../../helpers/seeded-random.js';
import { startTestService, type TestService } from '../../helpers/test-service.js';

const STEPS = 150;
const WRITERS = 3;

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

interface Observation {
  readonly name: string;
  readonly text: string;
  readonly blocks: ReadonlyMap<string, string>;
}

/** Checks that a version never names two different contents. */
class Witness {
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
async function observe(url: string): Promise<Observation> {
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
class Writer {
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

async function connectWriter(url: string): Promise<pg.Client> {
  const client = new pg.Client(url);
  await client.connect();
  await client.query("SET lock_timeout = '50ms'");
  return client;
}

describe('versions of the order list', () => {
  let service: TestService;
  let key: string;

  beforeAll(async () => {
    service = await startTestService();
    ({ key } = await insertKey(service.db, {
      plan: 'enterprise',
      requests_per_minute: 1_000_000,
      requests_per_day: 1_000_000,
    }));
  });
  afterAll(async () => {
    await service.stop();
  });

  /** The list as a client receives it. */
  async function listed(encoding: 'gzip' | 'identity'): Promise<{ etag: string; text: string }> {
    const { status, headers, body } = await requestRaw(service.baseUrl, {
      key,
      headers: { 'Accept-Encoding': encoding },
    });
    expect([status, headers['content-encoding']]).toEqual([200, encoding === 'gzip' ? 'gzip' : undefined]);
    return { etag: String(headers.etag), text: (encoding === 'gzip' ? gunzipSync(body) : body).toString() };
  }

  it('identify one content each, and the service serves that content, for random statements of several writers', async () => {
    await withSeed(async (random) => {
      const clients = await Promise.all(Array.from({ length: WRITERS }, () => connectWriter(service.url)));
      const writers = clients.map((client, index) => new Writer(client, random.fork(), `writer_${index}`));
      const lists = new Witness();
      const blocks = new Witness();
      const served: { etag: string; text: string }[] = [];
      const expected: typeof served = [];
      try {
        for (let step = 0; step < STEPS; step++) {
          await random.pick(writers).step();
          if (random.chance(0.4)) {
            // A writer that holds the table exclusively would keep the observer waiting.
            await Promise.all(writers.filter(() => random.chance(0.6)).map((writer) => writer.end()));
            const isLocked = await service.db.query(
              "SELECT FROM pg_locks WHERE relation = 'orders'::regclass AND mode = 'AccessExclusiveLock'",
            );
            if ((isLocked.rowCount ?? 0) > 0) {
              await Promise.all(writers.map((writer) => writer.end()));
            }
            const { name, text, blocks: seen } = await observe(service.url);
            lists.see(name, text);
            for (const [version, content] of seen) {
              blocks.see(version, content);
            }
            served.push(await listed(random.pick(['gzip', 'identity'])));
            expected.push({ etag: etagOf(name), text });
          }
        }
      } finally {
        await Promise.all(writers.map((writer) => writer.end()));
        await Promise.all(clients.map((client) => client.end()));
      }
      expect(served.length).toBeGreaterThan(20);
      expect(served).toEqual(expected);
    });
  }, 120_000);

  it.each<[string, string]>([
    ['an order is cancelled', "UPDATE orders SET status = 'cancelled', cancelled_at = now() WHERE id = 1"],
    ['an update sets the same values', 'UPDATE orders SET pet_id = pet_id, quantity = quantity WHERE id = 1'],
    ['a statement matches no row', 'UPDATE orders SET pet_id = 1 WHERE id = 404; DELETE FROM orders WHERE id = 404'],
    ['a change is rolled back', 'BEGIN; UPDATE orders SET pet_id = pet_id + 1 WHERE id = 1; ROLLBACK'],
    ['an insert conflicts', 'INSERT INTO orders (id, pet_id, quantity) VALUES (1, 1, 1) ON CONFLICT DO NOTHING'],
    ['the changes are compacted', 'SELECT compact_order_list_changes()'],
    ['the table is analyzed', 'ANALYZE orders'],
    ['another table is written', "UPDATE api_keys SET last_used_at = now(), name = 'renamed'"],
  ])('stay the same when %s', async (_what, statements) => {
    await service.db.query('TRUNCATE orders; INSERT INTO orders (id, pet_id, quantity) VALUES (1, 1, 1), (2, 2, 2)');
    const { name } = await observe(service.url);
    await service.db.query(statements);
    expect((await observe(service.url)).name).toBe(name);
  });

  it.each<[string, string]>([
    ['an order is inserted', 'INSERT INTO orders (id, pet_id, quantity) VALUES (50, 1, 1)'],
    [
      'an order is inserted by a replica role',
      "SET session_replication_role = 'replica'; INSERT INTO orders (id, pet_id, quantity) VALUES (50, 1, 1); RESET session_replication_role",
    ],
    ['a pet id changes', 'UPDATE orders SET pet_id = pet_id + 1 WHERE id = 1'],
    ['a quantity changes', 'UPDATE orders SET quantity = quantity + 1 WHERE id = 1'],
    ['a ship date is set', 'UPDATE orders SET ship_date = now() WHERE id = 1'],
    ['an order is completed', "UPDATE orders SET status = 'shipped', complete = true WHERE id = 1"],
    ['an id changes', 'UPDATE orders SET id = 100000 WHERE id = 1'],
    ['an order is deleted', 'DELETE FROM orders WHERE id = 1'],
    ['the table is truncated', 'TRUNCATE orders'],
    [
      'the table is truncated and filled again',
      'BEGIN; TRUNCATE orders; INSERT INTO orders (id, pet_id, quantity) VALUES (1, 9, 1); COMMIT',
    ],
    ['a column is rewritten', alterColumn('pet_id', 'bigint USING pet_id + 1')],
  ])('change when %s', async (_what, statements) => {
    await service.db.query('TRUNCATE orders; INSERT INTO orders (id, pet_id, quantity) VALUES (1, 1, 1), (2, 2, 2)');
    const before = await observe(service.url);
    await service.db.query(statements);
    const after = await observe(service.url);
    expect(after.name).not.toBe(before.name);
    expect((await listed('gzip')).text).toBe(after.text);
  });

  it('do not make writers of the same block wait for each other', async () => {
    await service.db.query('TRUNCATE orders; INSERT INTO orders (id, pet_id, quantity) VALUES (1, 1, 1), (2, 2, 2)');
    const [one, other] = [await connectWriter(service.url), await connectWriter(service.url)];
    try {
      await one.query(
        'BEGIN; UPDATE orders SET pet_id = 5 WHERE id = 1; INSERT INTO orders (id, pet_id, quantity) VALUES (3, 3, 3)',
      );
      await other.query(
        'BEGIN; UPDATE orders SET pet_id = 6 WHERE id = 2; INSERT INTO orders (id, pet_id, quantity) VALUES (4, 4, 4)',
      );
      await service.db.query('SELECT compact_order_list_changes()');
      await other.query('COMMIT');
      const between = await observe(service.url);
      await one.query('COMMIT');
      const after = await observe(service.url);
      expect(after.name).not.toBe(between.name);
      expect(JSON.parse(after.text)).toHaveLength(4);
    } finally {
      await Promise.all([one.end(), other.end()]);
    }
  });

  it('get one row per block for a bulk update', async () => {
    await service.db.query(
      'TRUNCATE orders; INSERT INTO orders (id, pet_id, quantity) SELECT n, 1, 1 FROM generate_series(0, 49999) AS n',
    );
    const count = async (): Promise<number> =>
      Number((await service.db.query<{ n: string }>('SELECT count(*) AS n FROM order_list_changes')).rows[0]!.n);
    const before = await count();
    await service.db.query('UPDATE orders SET pet_id = 2');
    expect((await count()) - before).toBe(4);
    await service.db.query('SELECT compact_order_list_changes()');
    expect(await count()).toBe(
      Number(
        (await service.db.query<{ n: string }>('SELECT count(DISTINCT block) AS n FROM order_list_changes')).rows[0]!.n,
      ),
    );
  });
});
