import { cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { describeWith } from '../helpers/describe-with.js';
import { lockOrder } from '../helpers/lock-waits.js';
import { openPool } from '../helpers/open-pool.js';
import { petstore } from '../helpers/petstore.js';
import { PgBouncer } from '../helpers/pgbouncer.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';
import { withTraffic } from '../model/order-traffic.js';

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

async function startService(environment: Readonly<Record<string, string>> = {}): Promise<ServiceProcess> {
  const service = await ServiceProcess.start({
    DATABASE_URL: bouncer.url(database.url),
    API_KEY_CACHE_SECONDS: '3600',
    ...environment,
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

async function expectRevocationAtOnce(service: ServiceProcess, environment: Record<string, string>): Promise<void> {
  expect((await listOrders(service.baseUrl, key)).status).toBe(200);
  expect((await petstore(['keys', 'revoke', keyId], environment)).stderr).toBe('');
  await waitFor(async () => (await listOrders(service.baseUrl, key)).status === 401, 'the key is rejected');
}

describeWith('pgbouncer')('PgBouncer in session mode, as Debian configures it,', () => {
  it('serves cancels, lists, lock timeouts and notifications without further settings', async () => {
    bouncer = await PgBouncer.start(database.url);
    const service = await startService();
    await expectConsistentTraffic();
    await expectLockTimeout(service);
    await expectRevocationAtOnce(service, { DATABASE_URL: bouncer.url(database.url) });
    expect(service.output).not.toContain('"level":"error"');
  });
});

describeWith('pgbouncer')('PgBouncer in transaction mode', () => {
  beforeEach(async () => {
    // Fewer server connections than the service has connections, so that they are shared.
    bouncer = await PgBouncer.start(database.url, { pool_mode: 'transaction', default_pool_size: '5' });
  });

  it('serves cancels, lists, lock timeouts and notifications of two services with DATABASE_POOLER=transaction', async () => {
    const environment = { DATABASE_POOLER: 'transaction', DATABASE_DIRECT_URL: database.url };
    const service = await startService(environment);
    await startService(environment);
    await expectConsistentTraffic();
    await expectLockTimeout(service);
    await expectNoSessionState();
    await expectRevocationAtOnce(service, { DATABASE_URL: bouncer.url(database.url), ...environment });
  });

  it('is named at start when DATABASE_POOLER is not set', async () => {
    await expect(startService()).rejects.toThrow(
      'DATABASE_URL leads to a connection pooler that does not keep a server connection for each client. ' +
        'Set DATABASE_POOLER=transaction and DATABASE_DIRECT_URL, or use session pooling',
    );
  });

  it('is named at start when DATABASE_DIRECT_URL leads to it, too', async () => {
    const environment = { DATABASE_POOLER: 'transaction', DATABASE_DIRECT_URL: bouncer.url(database.url) };
    await expect(startService(environment)).rejects.toThrow('DATABASE_DIRECT_URL leads to a connection pooler');
  });

  /** What a service leaves behind on a server connection would reach other clients of the pooler. */
  async function expectNoSessionState(): Promise<void> {
    const pool = openPool({ connectionString: bouncer.url(database.url), max: 5 });
    const clients = await Promise.all(Array.from({ length: 5 }, () => pool.connect()));
    for (const client of clients) {
      // Keeps its server connection, so that each of them is looked at.
      await client.query('BEGIN');
      const { rows } = await client.query(
        `SELECT current_setting('lock_timeout') AS lock_timeout, current_setting('enable_seqscan') AS enable_seqscan,
                (SELECT count(*)::int FROM pg_prepared_statements) AS prepared`,
      );
      expect(rows).toEqual([{ lock_timeout: '0', enable_seqscan: 'on', prepared: 0 }]);
    }
    for (const client of clients) {
      await client.query('ROLLBACK');
      client.release();
    }
    await pool.end();
  }
});
