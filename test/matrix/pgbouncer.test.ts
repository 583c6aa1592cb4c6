import { cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { describeWith } from '../helpers/describe-with.js';
import { lockOrder } from '../helpers/lock-waits.js';
import { openPool } from '../helpers/open-pool.js';
import { petstore, runProcess } from '../helpers/petstore.js';
import { PgBouncer } from '../helpers/pgbouncer.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';
import { withTraffic } from '../models/order-traffic.js';

let database: TestDatabase;
let key: string;
let keyId: string;
let services: ServiceProcess[];
let bouncer: PgBouncer;

beforeEach(async () => {
  database = await createTestDatabase();
  ({ key, id: keyId } = await insertKey(database.db));
  services = [];
});
afterEach(async () => {
  await Promise.all(services.map((service) => service.stop()));
  await bouncer.stop();
  await database.drop();
});

async function startService(): Promise<ServiceProcess> {
  const service = await ServiceProcess.start({
    DATABASE_URL: bouncer.url(database.url),
    API_KEY_CACHE_SECONDS: '3600',
  });
  services.push(service);
  return service;
}

/** Checks every response to concurrent cancels and lists. */
async function expectConsistentTraffic(): Promise<void> {
  await withTraffic({ services: () => services, db: database.db, key, clients: 16, ledgers: 1 }, async (traffic) => {
    await traffic.until({ '204': 200 }, 60_000);
    expect(traffic.count('500 internal_error')).toBe(0);
  });
}

async function expectLockTimeout(service: ServiceProcess): Promise<void> {
  const id = await insertOrder(database.db);
  const release = await lockOrder(database.db, id);
  const response = await cancelOrder(service.baseUrl, id, key);
  expect([response.status, (await errorOf(response)).message]).toEqual([
    503,
    'The order is locked by another transaction; retry shortly.',
  ]);
  await release();
}

async function expectRevocationAtOnce(service: ServiceProcess): Promise<void> {
  expect((await listOrders(service.baseUrl, key)).status).toBe(200);
  const revoked = await petstore(['keys', 'revoke', keyId], { DATABASE_URL: bouncer.url(database.url) });
  expect(revoked.stderr).toBe('');
  await waitFor(async () => (await listOrders(service.baseUrl, key)).status === 401, 'the key is rejected');
}

describeWith('pgbouncer')('PgBouncer in session mode, as Debian configures it,', () => {
  it('serves cancels, lists, lock timeouts and notifications without further settings', async () => {
    bouncer = await PgBouncer.start(database.url);
    const service = await startService();
    await expectConsistentTraffic();
    await expectLockTimeout(service);
    await expectRevocationAtOnce(service);
    expect(service.output).not.toContain('"level":"error"');
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
