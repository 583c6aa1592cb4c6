import type pg from 'pg';
import { serverProblem } from '../../src/database/check-server.js';
import { insertKey } from '../helpers/builders.js';
import { openPool } from '../helpers/open-pool.js';
import { ReplicatedPostgres } from '../helpers/replicated-postgres.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { TcpProxy } from '../helpers/tcp-proxy.js';
import { withTraffic } from '../models/order-traffic.js';

let postgres: ReplicatedPostgres;
/** Leads to the server that accepts writes, as a virtual address or HAProxy does. */
let proxy: TcpProxy;
let url: string;
let db: pg.Pool;
let key: string;
let services: ServiceProcess[] = [];

async function startService(): Promise<ServiceProcess> {
  return ServiceProcess.start({ DATABASE_URL: url, API_KEY_CACHE_SECONDS: '3600' });
}

describe('a primary and a standby behind one address', () => {
  beforeAll(async () => {
    postgres = await ReplicatedPostgres.create();
    await postgres.makeSynchronous();
    proxy = await TcpProxy.start(postgres.url);
    url = proxy.urlFor(postgres.url);
    db = openPool({ connectionString: url, max: 20, connectionTimeoutMillis: 10_000 });
    db.on('connect', (client) => client.on('error', () => undefined));
    ({ key } = await insertKey(db));
    services = await Promise.all([startService(), startService()]);
  });
  afterAll(async () => {
    await Promise.all(services.map((service) => service.stop('SIGKILL')));
    await proxy.close();
    await db.end();
    await postgres.drop();
  });

  it('is checked at start: the address must point to the primary, which the service waits for', async () => {
    expect(await serverProblem(url)).toBeUndefined();
    expect(await serverProblem(postgres.standbyUrl)).toEqual({
      message: expect.stringMatching(/^DATABASE_URL must point to a writable .*got a standby/) as unknown,
      isFatal: false,
    });
  });

  // The last one: it ends the primary.
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
});
