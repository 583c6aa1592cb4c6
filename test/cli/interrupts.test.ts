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

async function count(condition: string): Promise<number> {
  const { rows } = await database.db.query<{ count: string }>(`SELECT count(*) FROM ${condition}`);
  return Number(rows[0]?.count);
}

const IS_COPYING = "pg_stat_activity WHERE datname = current_database() AND query LIKE 'COPY order_import%'";
const IS_INSERTING =
  "pg_stat_activity WHERE datname = current_database() AND application_name = 'petstore-cli' AND query LIKE '%ON CONFLICT%'";
const IS_COMMITTING = "pg_stat_activity WHERE datname = current_database() AND query = 'COMMIT' AND state = 'active'";
const IS_WAITING = "pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";

const INTERRUPTED = 'Interrupted: no order was inserted.\n';

describe('Ctrl-C', () => {
  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ] as const)(
    'ends an import that waits for input, as does another signal, and nothing is imported: %s',
    async (signal, exitCode) => {
      const command = start('orders', 'import', '-');
      command.stdin!.write('petId,quantity\n1,1\n');
      await waitFor(async () => (await count(IS_COPYING)) === 1, 'the import reads');
      expect(await interrupt(command, signal)).toEqual([exitCode, INTERRUPTED]);
      expect(await count('orders')).toBe(0);
    },
  );

  it('cancels the statement of an import, and nothing is imported', async () => {
    const unlock = await openTransaction(database.db, 'LOCK TABLE orders IN SHARE MODE');
    const command = start('orders', 'import', '-');
    command.stdin!.end('petId,quantity\n1,1\n');
    await waitFor(async () => (await count(IS_WAITING)) === 1, 'the import waits for the lock');
    expect(await interrupt(command)).toEqual([130, INTERRUPTED]);
    await unlock();
    expect(await count('orders')).toBe(0);
  });

  it('says that the commit of an import had begun, which may succeed', async () => {
    await database.db.query(`
      CREATE FUNCTION delay_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NULL; END $$;
      CREATE CONSTRAINT TRIGGER delays_commit AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION delay_commit()`);
    try {
      const command = start('orders', 'import', '-');
      command.stdin!.end('petId,quantity\n1,1\n');
      await waitFor(async () => (await count(IS_COMMITTING)) === 1, 'the commit has begun');
      const message = 'Interrupted: the commit had begun; check whether the orders exist before you repeat it.\n';
      expect(await interrupt(command)).toEqual([130, message]);
      await waitFor(async () => (await count(IS_COMMITTING)) === 0, 'PostgreSQL has ended the commit');
    } finally {
      await database.db.query('DROP TRIGGER delays_commit ON orders; DROP FUNCTION delay_commit()');
    }
  });

  it('ends a seed, and nothing is inserted', async () => {
    const command = start('seed', '--orders', '100000000');
    await waitFor(async () => (await count(IS_INSERTING)) === 1, 'orders are inserted');
    expect(await interrupt(command)).toEqual([130, INTERRUPTED]);
    expect(await count('orders')).toBe(0);
  });
});
