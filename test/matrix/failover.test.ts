import type pg from 'pg';
import { serverProblem } from '../../src/database/check-server.js';
import { cancelOrder } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { openPool } from '../helpers/open-pool.js';
import { ReplicatedPostgres } from '../helpers/replicated-postgres.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { TcpProxy } from '../helpers/tcp-proxy.js';
import { waitFor } from '../helpers/wait-for.js';
import { withTraffic } from '../model/order-traffic.js';

const MISSING = '9007199254740993';

const SERVICE_SESSIONS = `SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'petstore-%'`;

let postgres: ReplicatedPostgres;
/** Leads to the server that accepts writes, as a virtual address or HAProxy does. */
let proxy: TcpProxy;
let url: string;
let db: pg.Pool;
let key: string;
let services: ServiceProcess[];

/** On the primary, for existing connections, too. */
async function setReadOnly(value: 'on' | 'off'): Promise<void> {
  await postgres.db.query(`ALTER SYSTEM SET default_transaction_read_only = ${value}`);
  await postgres.db.query('SELECT pg_reload_conf()');
}

async function startService(): Promise<ServiceProcess> {
  return ServiceProcess.start({ DATABASE_URL: url, API_KEY_CACHE_SECONDS: '3600' });
}

describe('a primary and a synchronous standby behind one address', () => {
  beforeEach(async () => {
    services = [];
    postgres = await ReplicatedPostgres.create();
    await postgres.makeSynchronous();
    proxy = await TcpProxy.start(postgres.url);
    url = proxy.urlFor(postgres.url);
    db = openPool({ connectionString: url, max: 20, connectionTimeoutMillis: 2_000 });
    db.on('connect', (client) => client.on('error', () => undefined));
    ({ key } = await insertKey(db));
    services = await Promise.all([startService(), startService()]);
  });
  afterEach(async () => {
    await Promise.all(services.map((service) => service.stop('SIGKILL')));
    await proxy.close();
    await db.end();
    await postgres.drop();
  });

  it('loses no cancel with a 204 when the primary is killed, and continues when the standby is promoted', async () => {
    await withTraffic({ services: () => services, db, key, clients: 12, ledgers: 2 }, async (traffic) => {
      await traffic.until({ '204': 100 });
      postgres.killPrimary();
      await traffic.until({ '503 service_unavailable': 1 });
      await postgres.promote();
      proxy.retarget(postgres.standbyUrl);
      proxy.closeConnections();
      await traffic.until({ '204': 20, '200': 1 });
      expect(traffic.count('500 internal_error')).toBe(0);
    });
  });

  it('is checked at start: the address must lead to the primary, which the service waits for', async () => {
    expect(await serverProblem(url)).toBeUndefined();
    expect(await serverProblem(postgres.standbyUrl)).toEqual({
      message: 'DATABASE_URL must lead to the primary server (got a standby)',
      isFatal: false,
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
    // An order that does not exist: until its session has read the setting, a cancel succeeds.
    await waitFor(async () => (await cancelOrder(service.baseUrl, MISSING, key)).status === 503, 'a cancel fails');
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
