import { Pools } from '../../src/database/pools.js';
import { outcomeOfCancel } from '../helpers/api.js';
import { insertOrders } from '../helpers/builders.js';
import { useTestService } from '../helpers/test-service.js';

const context = useTestService();

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
