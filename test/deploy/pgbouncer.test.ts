import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { insertKey, insertOrders } from '../helpers/builders.js';
import { describeWith } from '../helpers/describe-if.js';
import { freePort } from '../helpers/free-port.js';
import { lockOrder } from '../helpers/lock-waits.js';
import { openPool } from '../helpers/open-pool.js';
import { petstore, runProcess } from '../helpers/petstore.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';

const folder = useTemporaryFolder('pgbouncer');
const database = useTestDatabase();
let bouncer: ChildProcess;
/** The test database, by way of PgBouncer. */
let url: string;
/** Also one that should not have started. */
let service: ServiceProcess | undefined;
afterEach(async () => {
  await service?.stop('SIGKILL');
  const exited = new Promise((resolve) => bouncer.once('exit', resolve));
  bouncer.kill('SIGTERM');
  await exited;
});

/** Starts PgBouncer in front of the test's server, with Debian's configuration and the given settings. */
async function startPgBouncer(settings: Readonly<Record<string, string>> = {}): Promise<void> {
  const { hostname, port: serverPort, username, password } = new URL(database.url);
  // PgBouncer does not run as root.
  chmodSync(folder, 0o755);
  const port = await freePort();
  const users = join(folder, 'userlist.txt');
  writeFileSync(users, `"${username}" "${password}"\n`);
  const file = join(folder, 'pgbouncer.ini');
  const debian = readFileSync('/etc/pgbouncer/pgbouncer.ini', 'utf8').replace(/^(?:logfile|pidfile) = .*$/gm, '');
  const ours = { listen_addr: '127.0.0.1', listen_port: String(port), unix_socket_dir: '', auth_file: users };
  const lines = Object.entries({ ...ours, ...settings }).map(([name, value]) => `${name} = ${value}`);
  const databases = `[databases]\n* = host=${hostname} port=${serverPort}`;
  writeFileSync(file, `${debian}\n${databases}\n[pgbouncer]\n${lines.join('\n')}\n`);
  const user = process.getuid?.() === 0 ? ['-u', 'nobody'] : [];
  bouncer = spawn('pgbouncer', ['-q', ...user, file], { stdio: 'ignore' });
  url = Object.assign(new URL(database.url), { port }).href;
  const responds = async (): Promise<boolean> => {
    const client = new pg.Client(url);
    client.on('error', () => undefined);
    await client.connect();
    await client.end();
    return true;
  };
  await waitFor(() => responds().catch(() => false), 'PgBouncer responds');
}

async function startService(): Promise<ServiceProcess> {
  service = await ServiceProcess.start({ DATABASE_URL: url, API_KEY_CACHE_SECONDS: '3600' });
  return service;
}

describeWith('pgbouncer')('PgBouncer in session mode, as Debian configures it,', () => {
  it('serves cancels, lists, lock timeouts and notifications without further settings', async () => {
    const { key, id: keyId } = await insertKey(database.db);
    const [order = '', locked = ''] = await insertOrders(database.db, 2);
    await startPgBouncer();
    const { baseUrl } = await startService();
    expect((await cancelOrder(baseUrl, order, key)).status).toBe(204);
    expect((await listOrders(baseUrl, key)).status).toBe(200);
    const release = await lockOrder(database.db, locked);
    const response = await cancelOrder(baseUrl, locked, key);
    await release();
    const message = 'The order is locked by another transaction; retry shortly.';
    expect(await errorOf(response)).toMatchObject({ status: 503, message });
    const revoked = await petstore(['keys', 'revoke', keyId], { DATABASE_URL: url });
    expect(revoked.stderr).toBe('');
    const isRejected = async (): Promise<boolean> => (await listOrders(baseUrl, key)).status === 401;
    await waitFor(isRejected, 'the key is rejected');
    expect(service?.output).not.toMatch(/"level":(?:50|60)/);
  });
});

describeWith('pgbouncer')('PgBouncer in transaction mode', () => {
  const REJECTION =
    'DATABASE_URL must point to PostgreSQL itself, or to a pooler that keeps a server connection for each client, ' +
    'like pool_mode = session of PgBouncer (got a pooler that does not)';

  // The check must see through both orders in which PgBouncer lends its server connections.
  const COUNT = 2;
  it.each([
    ['the last one used', '0'],
    ['one after the other', '1'],
  ])('is rejected by service, commands and migrations when it lends %s', async (_what, server_round_robin) => {
    await startPgBouncer({ pool_mode: 'transaction', server_round_robin, default_pool_size: String(COUNT) });
    const pool = openPool({ connectionString: url, max: COUNT });
    const clients = await Promise.all(Array.from({ length: COUNT }, () => pool.connect()));
    // Transactions at the same time open all server connections.
    await Promise.all(clients.map((client) => client.query('BEGIN')));
    await Promise.all(clients.map((client) => client.query('COMMIT')));
    for (const client of clients) {
      client.release();
    }
    await pool.end();
    await expect(startService()).rejects.toThrow(REJECTION);
    const listed = await petstore(['keys', 'list'], { DATABASE_URL: url });
    expect(listed).toMatchObject({ exitCode: 1, stderr: expect.stringContaining(REJECTION) as string });
    const migrated = await runProcess(['npx', 'prisma', 'migrate', 'deploy'], { DATABASE_URL: url });
    expect(migrated.exitCode).toBe(1);
    expect(migrated.stdout + migrated.stderr).toContain(REJECTION);
    // Neither settings nor Prisma's lock stay on a connection of the pooler.
    const { rowCount } = await database.db.query(
      `SELECT FROM pg_locks JOIN pg_database ON pg_database.oid = database
       WHERE locktype = 'advisory' AND datname = current_database()`,
    );
    expect(rowCount).toBe(0);
  });
});
