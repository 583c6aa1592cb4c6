import type pg from 'pg';
import { insertKey } from '../helpers/builders.js';
import { OwnPostgres } from '../helpers/own-postgres.js';
import type { SeededRandom } from '../helpers/seeded-random.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { TcpProxy } from '../helpers/tcp-proxy.js';
import { waitFor } from '../helpers/wait-for.js';
import { type OrderTraffic, withTraffic } from '../models/order-traffic.js';

jest.setTimeout(180_000);

const UNAVAILABLE = '503 service_unavailable';

let postgres: OwnPostgres;
/** Between the services and PostgreSQL. */
let network: TcpProxy;
let db: pg.Pool;
let key: string;
/** Only the last one is killed. */
let services: ServiceProcess[];

type Fault = (traffic: OrderTraffic, random: SeededRandom) => Promise<void>;

/** Each resolves when the failure is over. */
const FAULTS: Readonly<Record<string, Fault>> = {
  'PostgreSQL is stopped and started again': async (traffic) => {
    await postgres.stop();
    await traffic.until({ [UNAVAILABLE]: 1 });
    await postgres.start();
  },
  'PostgreSQL crashes and recovers repeatedly': async (traffic) => {
    for (let crash = 0; crash < 2; crash++) {
      await crashPostgres();
      await traffic.until({ [UNAVAILABLE]: 1 });
      const hasRecovered = (): Promise<boolean> => db.query('SELECT 1').then(Boolean, () => false);
      await waitFor(hasRecovered, 'PostgreSQL has recovered');
      await traffic.until({ '204': 1 });
    }
  },
  'PostgreSQL is read-only for some time, during which lists continue': async (traffic) => {
    await db.query('ALTER SYSTEM SET default_transaction_read_only = on');
    await db.query('SELECT pg_reload_conf()');
    await traffic.until({ [UNAVAILABLE]: 1 });
    await traffic.until({ '200': 10, '304': 10 });
    await db.query('ALTER SYSTEM RESET default_transaction_read_only');
    await db.query('SELECT pg_reload_conf()');
  },
  'the network closes connections repeatedly': async (traffic, random) => {
    for (let cut = 0; cut < 10; cut++) {
      const next = traffic.total + random.below(30);
      await waitFor(() => traffic.total > next, 'some requests later');
      network.closeConnections();
    }
  },
  'a service is killed': async (traffic, random) => {
    await traffic.until({ '204': 1 + random.below(40) });
    await services[1]!.stop('SIGKILL');
    services[1] = await startService();
    const abandoned = `SELECT FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND
      application_name LIKE 'petstore-%' AND state_change < now() - interval '2 seconds'`;
    await waitFor(async () => (await db.query(abandoned)).rowCount === 0, 'no killed process has an open transaction');
  },
};

function startService(): Promise<ServiceProcess> {
  return ServiceProcess.start({
    DATABASE_URL: network.urlFor(postgres.url),
    // Keys are cached for the whole test, so that the failure affects the operations and not the key look-up.
    API_KEY_CACHE_SECONDS: '3600',
  });
}

/** Kills a backend, so that PostgreSQL ends all sessions and recovers from its log. */
async function crashPostgres(): Promise<void> {
  const { rows } = await db.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
  process.kill(rows[0]!.pid, 'SIGKILL');
}

describe('no committed response is lost, nothing is half done, and the services recover when', () => {
  beforeAll(async () => {
    postgres = await OwnPostgres.create();
    network = await TcpProxy.start(postgres.url);
    ({ db } = postgres);
    ({ key } = await insertKey(db));
    services = await Promise.all([startService(), startService()]);
  });
  afterAll(async () => {
    await Promise.all(services.map((service) => service.stop('SIGKILL')));
    await network.close();
    await postgres.drop();
  });

  it.each(Object.entries(FAULTS))('%s', async (_name, fault) => {
    await db.query('TRUNCATE orders');
    await withTraffic({ services: () => services, db, key, clients: 12, ledgers: 2 }, async (traffic, random) => {
      await traffic.until({ '204': 20 });
      await fault(traffic, random);
      await traffic.until({ '204': 25, '200': 10 });
    });
    for (const service of services) {
      expect(service.takeOutput()).not.toMatch(/"level":(?:50|60)/);
    }
  });
});
