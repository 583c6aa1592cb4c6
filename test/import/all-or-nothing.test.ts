import { type ChildProcess, spawn } from 'node:child_process';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import pg from 'pg';
import { LOCK_NOT_AVAILABLE } from '../../src/database/postgres-errors.js';
import { importOrders } from '../../src/orders/import/import-orders.js';
import { CLI } from '../helpers/build.js';
import { openTransaction, untilLockWaits } from '../helpers/lock-waits.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';

const database = useTestDatabase();
beforeEach(() => database.db.query('TRUNCATE orders RESTART IDENTITY'));

async function orderIds(): Promise<number[]> {
  const { rows } = await database.db.query<{ id: string }>('SELECT id FROM orders ORDER BY id');
  return rows.map(({ id }) => Number(id));
}

describe('an import beside other transactions', () => {
  let importer: pg.Client;
  let other: pg.Client;
  beforeEach(async () => {
    [importer, other] = await Promise.all([connect(), connect()]);
  });
  afterEach(() => Promise.all([importer.end(), other.end()]));

  async function connect(): Promise<pg.Client> {
    const client = new pg.Client(database.url);
    await client.connect();
    return client;
  }

  function importIds(...ids: number[]): Promise<number> {
    const file = `id,petId,quantity\n${ids.map((id) => `${id},7,1\n`).join('')}`;
    return importOrders(importer, Readable.from([Buffer.from(file)]));
  }

  /** Inserts an order in a transaction that stays open, so that an import of its id waits for it. */
  const insertUncommitted = (id: number): ReturnType<typeof openTransaction> =>
    openTransaction(database.db, 'INSERT INTO orders (id, pet_id, quantity) VALUES ($1, 8, 1)', [id]);

  it('gives an order that is inserted meanwhile an id above those of the file, without a wait', async () => {
    const end = await insertUncommitted(2);
    const importing = importIds(1, 2, 3);
    await untilLockWaits(database.db);
    await other.query('INSERT INTO orders (pet_id, quantity) VALUES (8, 1)');
    await end('ROLLBACK');
    expect(await importing).toBe(3);
    expect(await orderIds()).toEqual([1, 2, 3, 4]);
  });

  it('imports nothing when an order takes an id of the file after the check, and then names the line', async () => {
    const end = await insertUncommitted(2);
    const failure = importIds(1, 2).catch(String);
    await untilLockWaits(database.db);
    await end('COMMIT');
    expect(await failure).toContain('duplicate key');
    await expect(importIds(1, 2)).rejects.toThrow('line 3, id must not be the id of an existing order (got 2)');
    expect(await orderIds()).toEqual([2]);
  });

  it('fails within the lock timeout when another import runs', async () => {
    let first: Promise<number> | undefined;
    const file = await new Promise<Readable>((isReading) => {
      const source = new Readable({ read: () => isReading(source) });
      first = importOrders(other, source);
    });
    await importer.query('SET lock_timeout = 300');
    await expect(importIds(2)).rejects.toMatchObject({ code: LOCK_NOT_AVAILABLE });
    file.push('id,petId,quantity\n1,7,1\n');
    file.push(null);
    expect(await first).toBe(1);
    expect(await orderIds()).toEqual([1]);
  });

  it('fails when its COMMIT is rejected', async () => {
    const constraint = 'one_per_pet UNIQUE (pet_id) DEFERRABLE INITIALLY DEFERRED';
    await database.db.query(`ALTER TABLE orders ADD CONSTRAINT ${constraint}`);
    await expect(importIds(1, 2)).rejects.toThrow('one_per_pet');
    await database.db.query('ALTER TABLE orders DROP CONSTRAINT one_per_pet');
    expect(await orderIds()).toEqual([]);
  });
});

describe('a signal to petstore orders import', () => {
  function start(): ChildProcess {
    return spawn(process.execPath, [CLI, 'orders', 'import', '-'], {
      env: { PATH: process.env.PATH, DATABASE_URL: database.url },
      stdio: ['pipe', 'ignore', 'pipe'],
      timeout: 60_000,
    });
  }

  /** The exit code and what was written to stderr. */
  async function interrupt(command: ChildProcess, signal: NodeJS.Signals): Promise<[number | null, string]> {
    const ended = new Promise<number | null>((resolve) => command.once('close', resolve));
    const stderr = text(command.stderr!);
    command.kill(signal);
    return [await ended, await stderr];
  }

  /** Waits until the session of the command is in this state. */
  function untilSession(condition: string): Promise<void> {
    return waitFor(async () => {
      const { rowCount } = await database.db.query(
        `SELECT FROM pg_stat_activity
         WHERE datname = current_database() AND application_name = 'petstore-cli' AND ${condition}`,
      );
      return rowCount === 1;
    }, condition);
  }

  const ROWS = 'petId,quantity\n1,1\n';

  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('ends it while it reads, and it says that nothing was imported: %s', async (signal, code) => {
    const command = start();
    command.stdin!.write(ROWS);
    await untilSession("query LIKE 'COPY order_import%'");
    expect(await interrupt(command, signal)).toEqual([code, 'Interrupted: no order was inserted.\n']);
    expect(await orderIds()).toEqual([]);
  });

  it('ends it during its commit, and it says that this may succeed', async () => {
    await database.db.query(`
      CREATE FUNCTION delay_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NULL; END $$;
      CREATE CONSTRAINT TRIGGER delays_commit AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION delay_commit()`);
    try {
      const command = start();
      command.stdin!.end(ROWS);
      await untilSession("query = 'COMMIT' AND state = 'active'");
      const message = 'Interrupted: the commit had begun; check whether the orders exist before you repeat it.\n';
      expect(await interrupt(command, 'SIGINT')).toEqual([130, message]);
    } finally {
      await database.db.query('DROP TRIGGER delays_commit ON orders; DROP FUNCTION delay_commit()');
    }
  });
});
