import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type pg from 'pg';
import { PostgresServer } from '../../src/cli/embedded/postgres-server.js';
import { serverProblem } from '../../src/database/check-server.js';
import { insertKey } from '../helpers/builders.js';
import { freePort } from '../helpers/free-port.js';
import { applyMigrations } from '../helpers/own-postgres.js';
import { openPool } from '../helpers/open-pool.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { TcpProxy } from '../helpers/tcp-proxy.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';
import { waitFor } from '../helpers/wait-for.js';
import { withTraffic } from '../models/order-traffic.js';

const DATABASE = 'postgres';
const SETTINGS = { fsync: 'off' };

describe('a primary and a synchronous standby behind one address', () => {
  const folder = useTemporaryFolder('failover');
  let primary: PostgresServer;
  let standby: PostgresServer;
  /** Leads to the server that accepts writes, as a virtual address or HAProxy does. */
  let proxy: TcpProxy;
  let url: string;
  let db: pg.Pool;
  let key: string;
  let services: ServiceProcess[] = [];

  beforeAll(async () => {
    await startServers();
    proxy = await TcpProxy.start(primary.url(DATABASE));
    url = proxy.urlFor(primary.url(DATABASE));
    db = openPool({ connectionString: url, max: 20, connectionTimeoutMillis: 10_000 });
    db.on('connect', (client) => client.on('error', () => undefined));
    await db.query(`ALTER SYSTEM SET synchronous_standby_names = '*'`);
    await db.query('SELECT pg_reload_conf()');
    await waitFor(async () => {
      const { rowCount } = await db.query(`SELECT FROM pg_stat_replication WHERE sync_state = 'sync'`);
      return rowCount === 1;
    }, 'the standby is synchronous');
    ({ key } = await insertKey(db));
    const environment = { DATABASE_URL: url, API_KEY_CACHE_SECONDS: '3600' };
    services = await Promise.all([ServiceProcess.start(environment), ServiceProcess.start(environment)]);
  });
  afterAll(async () => {
    await Promise.all(services.map((service) => service.stop('SIGKILL')));
    await proxy.close();
    await db.end();
    await standby.stop();
    await primary.stop();
  });

  it('is checked at start: the address must point to the primary, which the service waits for', async () => {
    expect(await serverProblem(url)).toBeUndefined();
    expect(await serverProblem(standby.url(DATABASE))).toEqual({
      message: expect.stringMatching(/^DATABASE_URL must point to a writable .*got a standby/) as unknown,
      isFatal: false,
    });
  });

  // The last one: it ends the primary.
  it('loses no cancel with a 204 when the primary is killed, and continues when the standby is promoted', async () => {
    await withTraffic({ services: () => services, db, key, clients: 12, ledgers: 2 }, async (traffic) => {
      await traffic.until({ '204': 100 });
      // The backends of the postmaster end by themselves.
      process.kill(primary.pid!, 'SIGKILL');
      await traffic.until({ '503 service_unavailable': 1 });
      const administrator = openPool({ connectionString: standby.url(DATABASE), max: 1 });
      await administrator.query('SELECT pg_promote()');
      await administrator.end();
      proxy.retarget(standby.url(DATABASE));
      proxy.closeConnections();
      await traffic.until({ '204': 20, '200': 1 });
      expect(traffic.count('500 internal_error')).toBe(0);
    });
  });

  /** Starts a primary with a migrated database, and a standby that follows it. */
  async function startServers(): Promise<void> {
    const [primaryFolder, standbyFolder] = [join(folder, 'primary'), join(folder, 'standby')];
    const port = await freePort();
    const original = await PostgresServer.start({ folder: primaryFolder, settings: SETTINGS, port });
    const owner = openPool({ connectionString: original.url(DATABASE), max: 1 });
    await applyMigrations(owner);
    await owner.end();
    await original.stop();
    // A copy of a stopped server is a base backup. `cp` keeps the owner of the files.
    execFileSync('cp', ['--archive', primaryFolder, standbyFolder]);
    writeFileSync(join(standbyFolder, 'cluster', 'data', 'standby.signal'), '');
    primary = await PostgresServer.start({ folder: primaryFolder, settings: SETTINGS, port });
    const { username, password, hostname } = new URL(primary.url(DATABASE));
    const settings = {
      ...SETTINGS,
      primary_conninfo: `host=${hostname} port=${port} user=${username} password=${password}`,
      wal_retrieve_retry_interval: '100ms',
    };
    standby = await PostgresServer.start({ folder: standbyFolder, settings });
  }
});
