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

function startService(environment: Readonly<Record<string, string>> = {}): Promise<ServiceProcess> {
  return ServiceProcess.start({
    DATABASE_URL: postgres.url,
    DATABASE_REPLICA_URL: bouncer.url(postgres.standbyUrl),
    ...environment,
  });
}

/** A list that the service can only have read from the standby, because it does not show the last order. */
async function expectListOfStandby(service: ServiceProcess): Promise<void> {
  const { key } = await insertKey(postgres.db);
  const replicated = await insertOrder(postgres.db);
  await postgres.pauseReplay();
  try {
    const latest = await insertOrder(postgres.db);
    await waitFor(() => service.output.includes('reading lists from the replica'), 'the replica is available');
    const text = await (await listOrders(service.baseUrl, key)).text();
    expect(text).toContain(`"id":${replicated},`);
    expect(text).not.toContain(`"id":${latest},`);
  } finally {
    await postgres.resumeReplay();
  }
}

describeWith('pgbouncer')('PgBouncer in transaction mode in front of a standby', () => {
  beforeEach(async () => {
    bouncer = await PgBouncer.start(postgres.standbyUrl, { pool_mode: 'transaction', default_pool_size: '3' });
  });

  it('is named at start when DATABASE_POOLER is not set', async () => {
    await expect(startService()).rejects.toThrow(
      'DATABASE_REPLICA_URL leads to a connection pooler that does not keep a server connection for each client. ' +
        'Set DATABASE_POOLER=transaction and DATABASE_DIRECT_URL, or use session pooling',
    );
  });

  it('serves lists with DATABASE_POOLER=transaction', async () => {
    const service = await startService({ DATABASE_POOLER: 'transaction', DATABASE_DIRECT_URL: postgres.url });
    try {
      await expectListOfStandby(service);
    } finally {
      await service.stop();
    }
  });
});

describeWith('pgbouncer')('PgBouncer in session mode in front of a standby', () => {
  it('serves lists without further settings', async () => {
    bouncer = await PgBouncer.start(postgres.standbyUrl);
    const service = await startService();
    try {
      await expectListOfStandby(service);
    } finally {
      await service.stop();
    }
  });
});
