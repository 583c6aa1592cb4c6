import { listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { describeWith } from '../helpers/describe-with.js';
import { PgBouncer } from '../helpers/pgbouncer.js';
import { ReplicatedPostgres } from '../helpers/replicated-postgres.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { waitFor } from '../helpers/wait-for.js';

let postgres: ReplicatedPostgres;
let bouncer: PgBouncer;

beforeAll(async () => {
  postgres = await ReplicatedPostgres.create();
});
afterEach(() => bouncer.stop());
afterAll(() => postgres.drop());

const TRANSACTION = { pool_mode: 'transaction', default_pool_size: '3' };

function startService(environment: Readonly<Record<string, string>> = {}): Promise<ServiceProcess> {
  return ServiceProcess.start({
    DATABASE_URL: postgres.url,
    DATABASE_REPLICA_URL: bouncer.url(postgres.standbyUrl),
    ...environment,
  });
}

describeWith('pgbouncer')('PgBouncer in front of a standby', () => {
  it('in transaction mode is named at start when DATABASE_POOLER is not set', async () => {
    bouncer = await PgBouncer.start(postgres.standbyUrl, TRANSACTION);
    await expect(startService()).rejects.toThrow(
      'DATABASE_REPLICA_URL leads to a connection pooler that does not keep a server connection for each client. ' +
        'Set DATABASE_POOLER=transaction and DATABASE_DIRECT_URL, or use session pooling',
    );
  });

  it.each([
    ['transaction', TRANSACTION, () => ({ DATABASE_POOLER: 'transaction', DATABASE_DIRECT_URL: postgres.url })],
    ['session', {}, () => ({})],
  ])('in %s mode serves lists of the standby', async (_mode, settings, environment) => {
    bouncer = await PgBouncer.start(postgres.standbyUrl, settings);
    const service = await startService(environment());
    try {
      const { key } = await insertKey(postgres.db);
      const replicated = await insertOrder(postgres.db);
      await postgres.pauseReplay();
      // Only the primary has this one.
      const latest = await insertOrder(postgres.db);
      await waitFor(() => service.output.includes('reading lists from the replica'), 'the replica is available');
      const text = await (await listOrders(service.baseUrl, key)).text();
      expect([text.includes(`"id":${replicated},`), text.includes(`"id":${latest},`)]).toEqual([true, false]);
    } finally {
      await postgres.resumeReplay();
      await service.stop();
    }
  });
});
