import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { PROJECT_ROOT } from '../../src/common/project-root.js';
import { openTransaction } from '../helpers/lock-waits.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';

const PRISMA = join(PROJECT_ROOT, 'node_modules', 'prisma', 'build', 'index.js');
/** The lock that `prisma migrate` takes. */
const LOCK = 'SELECT pg_advisory_xact_lock(72707369)';
const IS_WAITING = `SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 72707369 AND NOT granted`;

const database = useTestDatabase();
const folder = useTemporaryFolder('migration');

function migrateDeploy(databaseUrl: string, variable = 'DATABASE_URL'): ChildProcess {
  return spawn(process.execPath, [PRISMA, 'migrate', 'deploy'], {
    cwd: PROJECT_ROOT,
    env: { PATH: process.env.PATH, [variable]: databaseUrl },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 60_000,
  });
}

/** The schema engine of a command that waits for the lock. */
async function engineOf(command: ChildProcess): Promise<number> {
  await waitFor(async () => (await database.db.query(IS_WAITING)).rowCount === 1, 'the engine waits for the lock');
  return Number(readFileSync(`/proc/${command.pid}/task/${command.pid}/children`, 'utf8').trim());
}

const exitOf = (command: ChildProcess): Promise<number | null> =>
  new Promise((resolve) => command.once('close', resolve));

describe('prisma migrate deploy', () => {
  it.each(['SIGKILL', 'SIGTERM'] as const)('fails when its engine is ended by %s', async (signal) => {
    const unlock = await openTransaction(database.db, LOCK);
    const command = migrateDeploy(database.url);
    const [exited, stderr] = [exitOf(command), text(command.stderr!)];
    process.kill(await engineOf(command), signal);
    expect(await exited).toBe(1);
    expect(await stderr).toContain('error: the schema engine has ended');
    await unlock();
  });

  it.each<[string, (url: URL, password: string) => void]>([
    ['part of the login', () => undefined],
    [
      'a parameter',
      (url, password) => {
        url.password = '';
        url.searchParams.set('password', password);
      },
    ],
  ])('shows no password in the list of processes when it is %s of the URL', async (_what, change) => {
    const unlock = await openTransaction(database.db, LOCK);
    const url = new URL(database.url);
    const { password } = url;
    change(url, password);
    const command = migrateDeploy(url.href);
    const exited = exitOf(command);
    const commandLine = readFileSync(`/proc/${await engineOf(command)}/cmdline`, 'utf8');
    expect(commandLine).toContain('schema-engine');
    expect(commandLine).not.toContain(password);
    await unlock();
    expect(await exited).toBe(0);
  });

  it('takes the URL from DATABASE_URL_FILE, as in the containers', async () => {
    const file = join(folder, 'database-url');
    writeFileSync(file, `${database.url}\n`);
    const command = migrateDeploy(file, 'DATABASE_URL_FILE');
    const [exited, stdout] = [exitOf(command), text(command.stdout!)];
    expect(await stdout).toContain('No pending migrations to apply');
    expect(await exited).toBe(0);
  });

  // The others are in test/config/config.test.ts: both read it with the same function.
  it.each([
    ['without a host', 'DATABASE_URL', 'postgresql://u:hunter2@/db?host=/var/run/postgresql'],
    ['in place of a path', 'DATABASE_URL_FILE', 'postgresql://u:hunter2@127.0.0.1:1/petstore'],
  ])('rejects a URL as the service does, and prints no password: %s', async (_what, variable, url) => {
    const command = migrateDeploy(url, variable);
    const [exited, stdout, stderr] = [exitOf(command), text(command.stdout!), text(command.stderr!)];
    expect(await exited).toBe(1);
    expect(await stderr).toMatch(
      variable === 'DATABASE_URL'
        ? /DATABASE_URL must be .*postgresql:\/\/user:password@localhost\/database\?host=/
        : 'DATABASE_URL_FILE must be the path of a readable file (got a URL)',
    );
    expect((await stdout) + (await stderr)).not.toContain('hunter2');
  });
});
