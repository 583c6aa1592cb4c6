import { PostgresServer } from '../../src/cli/embedded/postgres-server.js';
import { loadConfig } from '../../src/config/config.js';
import { Pools } from '../../src/database/pools.js';
import { Metrics } from '../../src/metrics/metrics.js';
import { outcomeOfCancel } from '../helpers/api.js';
import { insertOrders } from '../helpers/builders.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';
import { openPool } from '../helpers/open-pool.js';
import { useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

const context = useTestService();
const folder = useTemporaryFolder('standby');

it('replaces all idle connections when one turns out to lead to a server that is read-only', async () => {
  const { service, key } = context;
  const { main, list } = service.app.get(Pools);
  const listServer = async (): Promise<unknown> => (await list.query('SELECT pg_backend_pid() AS process')).rows[0];
  const before = await listServer();
  const clients = await Promise.all([1, 2, 3].map(() => main.connect()));
  for (const client of clients) {
    await client.query('SET default_transaction_read_only = on');
    client.release();
  }
  const outcomes: string[] = [];
  for (const id of await insertOrders(service.db, 3)) {
    outcomes.push(await outcomeOfCancel(service.baseUrl, id, key));
  }
  expect(outcomes).toEqual(['503 service_unavailable', '204', '204']);
  expect(await listServer()).not.toEqual(before);
});

it('writes nothing more while a commit waits for a standby that is gone', async () => {
  const server = await PostgresServer.start({ folder, settings: { fsync: 'off', synchronous_standby_names: 'gone' } });
  const connectionString = server.url('postgres');
  const admin = openPool({ connectionString, max: 1 });
  const pools = new Pools(loadConfig({ DATABASE_URL: connectionString, CANCEL_LOCK_TIMEOUT_MS: '1' }), new Metrics());
  await pools.beforeWrite();
  await expect(pools.main.query('CREATE TABLE committed ()')).rejects.toThrow('timeout');
  await expect(pools.beforeWrite()).rejects.toThrow('standby');
  await expect(pools.beforeWrite()).rejects.toThrow('standby');
  await admin.query(`SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`);
  await waitFor(async () => (await pools.beforeWrite().catch(() => false)) !== false, 'commits go on');
  expect((await pools.main.query('TABLE committed')).rows).toEqual([]);
  await pools.onApplicationShutdown();
  await admin.end();
  await server.stop();
});
