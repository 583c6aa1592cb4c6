import type pg from 'pg';
import { cancelOrder } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { describeWith } from '../helpers/describe-with.js';
import { openPool } from '../helpers/open-pool.js';
import { ReplicatedPostgres } from '../helpers/replicated-postgres.js';
import { withSeed } from '../helpers/seeded-random.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { waitFor } from '../helpers/wait-for.js';
import { WritableProxy } from '../helpers/writable-proxy.js';
import { OrderTraffic } from '../model/order-traffic.js';

const RECOVERY_MS = 5_000;
const SERVICE_SESSIONS = `SELECT pid FROM pg_stat_activity WHERE application_name IN ('petstore-main', 'petstore-list')`;

let postgres: ReplicatedPostgres;
let proxy: WritableProxy;
let db: pg.Pool;
let key: string;
let services: ServiceProcess[];

/** On the primary, for existing connections, too. */
async function setReadOnly(value: 'on' | 'off'): Promise<void> {
  await postgres.db.query(`ALTER SYSTEM SET default_transaction_read_only = ${value}`);
  await postgres.db.query('SELECT pg_reload_conf()');
}

async function startService(): Promise<ServiceProcess> {
  return ServiceProcess.start({ DATABASE_URL: proxy.url, API_KEY_CACHE_SECONDS: '3600' });
}

describeWith('haproxy')('a primary and a synchronous standby behind HAProxy', () => {
  beforeEach(async () => {
    services = [];
    postgres = await ReplicatedPostgres.create();
    await postgres.makeSynchronous();
    proxy = await WritableProxy.start([postgres.url, postgres.standbyUrl]);
    db = openPool({ connectionString: proxy.url, max: 20, connectionTimeoutMillis: 2_000 });
    db.on('connect', (client) => client.on('error', () => undefined));
    ({ key } = await insertKey(db));
    services = await Promise.all([startService(), startService()]);
  });
  afterEach(async () => {
    await Promise.all(services.map((service) => service.stop('SIGKILL')));
    await proxy.stop();
    await db.end();
    await postgres.drop();
  });

  it('loses no cancel with a 204 when the primary is killed, and continues when the standby is promoted', async () => {
    await withSeed(async (random) => {
      const baseUrls = services.map(({ baseUrl }) => baseUrl);
      const traffic = new OrderTraffic({ baseUrls: () => baseUrls, db, key, random, clients: 12, ledgers: 2 });
      await traffic.start();
      try {
        await waitFor(() => traffic.count('204') >= 100, 'cancels succeed');
        postgres.killPrimary();
        await waitFor(() => traffic.count('503 service_unavailable') > 0, 'cancels fail');
        await postgres.promote();
        const [cancelled, listed] = [traffic.count('204'), traffic.count('200')];
        await waitFor(
          () => traffic.count('204') > cancelled && traffic.count('200') > listed,
          'cancels and lists succeed again',
          { withinMs: RECOVERY_MS },
        );
        await waitFor(() => traffic.count('204') >= cancelled + 20, 'cancels continue', { withinMs: 20_000 });
      } finally {
        await traffic.stop();
      }
      expect(await traffic.violations()).toEqual([]);
    });
  });

  it('drops the connections to a server that has become read-only', async () => {
    const [service] = services as [ServiceProcess];
    const [first, second] = [await insertOrder(db), await insertOrder(db)];
    expect((await cancelOrder(service.baseUrl, first, key)).status).toBe(204);
    await services[1]!.stop();
    const sessions = async (): Promise<number[]> =>
      (await db.query<{ pid: number }>(SERVICE_SESSIONS)).rows.map(({ pid }) => pid);
    const before = await sessions();
    await setReadOnly('on');
    await waitFor(async () => (await cancelOrder(service.baseUrl, second, key)).status === 503, 'a cancel fails');
    await waitFor(async () => {
      const after = await sessions();
      return before.every((pid) => !after.includes(pid));
    }, 'the connections are closed');
    await setReadOnly('off');
    await waitFor(
      async () => (await cancelOrder(service.baseUrl, second, key)).status === 204,
      'cancels succeed again',
    );
  });
});
