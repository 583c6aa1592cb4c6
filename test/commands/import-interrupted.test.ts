import { type ChildProcess, spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { CLI } from '../helpers/build.js';
import { openTransaction } from '../helpers/lock-waits.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';

const database = useTestDatabase();
beforeEach(() => database.db.query('TRUNCATE orders'));

function start(...args: string[]): ChildProcess {
  return spawn(process.execPath, [CLI, ...args], {
    env: { PATH: process.env.PATH, DATABASE_URL: database.url },
    stdio: ['pipe', 'ignore', 'pipe'],
    timeout: 60_000,
  });
}

/** The exit code and what was written to stderr. */
async function interrupt(command: ChildProcess, signal: NodeJS.Signals = 'SIGINT'): Promise<[number | null, string]> {
  const ended = new Promise<number | null>((resolve) => command.once('close', resolve));
  const stderr = text(command.stderr!);
  command.kill(signal);
  return [await ended, await stderr];
}

/** Waits until a command's session is in this state. */
function untilSession(condition: string): Promise<void> {
  return waitFor(async () => {
    const { rowCount } = await database.db.query(
      `SELECT FROM pg_stat_activity
       WHERE datname = current_database() AND application_name = 'petstore-cli' AND ${condition}`,
    );
    return rowCount === 1;
  }, condition);
}

async function expectNoOrders(): Promise<void> {
  expect((await database.db.query('SELECT id FROM orders')).rows).toEqual([]);
}

const ROWS = 'petId,quantity\n1,1\n';
const INTERRUPTED = 'Interrupted: no order was inserted.\n';

describe('a signal', () => {
  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ] as const)('ends an import that waits for input, which says that nothing was imported: %s', async (signal, code) => {
    const command = start('orders', 'import', '-');
    command.stdin!.write(ROWS);
    await untilSession("query LIKE 'COPY order_import%'");
    expect(await interrupt(command, signal)).toEqual([code, INTERRUPTED]);
    await expectNoOrders();
  });

  it('ends an import that waits for a lock, and nothing is imported', async () => {
    const unlock = await openTransaction(database.db, 'LOCK TABLE orders IN SHARE MODE');
    const command = start('orders', 'import', '-');
    command.stdin!.end(ROWS);
    await untilSession("wait_event_type = 'Lock'");
    expect(await interrupt(command)).toEqual([130, INTERRUPTED]);
    await unlock();
    await expectNoOrders();
  });

  it('during the commit of an import ends it, which says that the commit may succeed', async () => {
    await database.db.query(`
      CREATE FUNCTION delay_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NULL; END $$;
      CREATE CONSTRAINT TRIGGER delays_commit AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION delay_commit()`);
    try {
      const command = start('orders', 'import', '-');
      command.stdin!.end(ROWS);
      await untilSession("query = 'COMMIT' AND state = 'active'");
      const message = 'Interrupted: the commit had begun; check whether the orders exist before you repeat it.\n';
      expect(await interrupt(command)).toEqual([130, message]);
    } finally {
      await database.db.query('DROP TRIGGER delays_commit ON orders; DROP FUNCTION delay_commit()');
    }
  });

  it('ends a seed, and nothing is inserted', async () => {
    const command = start('seed', '--orders', '100000000');
    await untilSession("query LIKE '%ON CONFLICT%'");
    expect(await interrupt(command)).toEqual([130, INTERRUPTED]);
    await expectNoOrders();
  });
});
