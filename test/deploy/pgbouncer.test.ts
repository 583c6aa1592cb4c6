import { cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { insertKey, insertOrders } from '../helpers/builders.js';
import { describeWith } from '../helpers/describe-with.js';
import { lockOrder } from '../helpers/lock-waits.js';
import { openPool } from '../helpers/open-pool.js';
import { petstore, runProcess } from '../helpers/petstore.js';
import { PgBouncer } from '../helpers/pgbouncer.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';

const database = useTestDatabase();
let bouncer: PgBouncer;
/** Also one that should not have started. */
let service: ServiceProcess | undefined;
afterEach(async () => {
  await service?.stop('SIGKILL');
  await bouncer.stop();
});

async function startService(): Promise<ServiceProcess> {
  service = await ServiceProcess.start({ DATABASE_URL: bouncer.url(database.url), API_KEY_CACHE_SECONDS: '3600' });
  return service;
}

describeWith('pgbouncer')('PgBouncer in session mode, as Debian configures it,', () => {
  it('serves cancels, lists, lock timeouts and notifications without further settings', async () => {
    const { key, id: keyId } = await insertKey(database.db);
    const [order = '', locked = ''] = await insertOrders(database.db, 2);
    bouncer = await PgBouncer.start(database.url);
    const { baseUrl } = await startService();
    expect((await cancelOrder(baseUrl, order, key)).status).toBe(204);
    expect((await listOrders(baseUrl, key)).status).toBe(200);
    const release = await lockOrder(database.db, locked);
    const response = await cancelOrder(baseUrl, locked, key);
    await release();
    const message = 'The order is locked by another transaction; retry shortly.';
    expect(await errorOf(response)).toMatchObject({ status: 503, message });
    const revoked = await petstore(['keys', 'revoke', keyId], { DATABASE_URL: bouncer.url(database.url) });
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
    const settings = { pool_mode: 'transaction', server_round_robin, default_pool_size: String(COUNT) };
    bouncer = await PgBouncer.start(database.url, settings);
    const pool = openPool({ connectionString: bouncer.url(database.url), max: COUNT });
    const clients = await Promise.all(Array.from({ length: COUNT }, () => pool.connect()));
    // Transactions at the same time open all server connections.
    await Promise.all(clients.map((client) => client.query('BEGIN')));
    await Promise.all(clients.map((client) => client.query('COMMIT')));
    for (const client of clients) {
      client.release();
    }
    await pool.end();
    await expect(startService()).rejects.toThrow(REJECTION);
    const environment = { DATABASE_URL: bouncer.url(database.url) };
    expect(await petstore(['keys', 'list'], environment)).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining(REJECTION) as string,
    });
    const migrated = await runProcess(['npx', 'prisma', 'migrate', 'deploy'], environment);
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
