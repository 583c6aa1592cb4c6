import pg from 'pg';
import { insertKey } from '../helpers/builders.js';
import { FailingPostgres } from '../helpers/failing-postgres.js';
import { type SeededRandom, withSeed } from '../helpers/seeded-random.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { waitFor } from '../helpers/wait-for.js';
import { OrderTraffic } from '../model/order-traffic.js';

jest.setTimeout(60_000);

const CONNECTIONS_MAX = 60;

let postgres: FailingPostgres;
let db: pg.Pool;
let key: string;
let services: ServiceProcess[];

beforeAll(async () => {
  postgres = await FailingPostgres.create({ max_connections: String(CONNECTIONS_MAX) });
  db = postgres.pool(20);
  ({ key } = await insertKey(db));
  services = await Promise.all([startService(), startService()]);
});
afterAll(async () => {
  await Promise.all(services.map((service) => service.stop('SIGKILL')));
  await db.end();
  await postgres.discard();
});
beforeEach(async () => {
  await db.query('TRUNCATE orders');
});

function startService(): Promise<ServiceProcess> {
  // Keys are cached for the whole test, so that the failure affects the operations and not the key look-up.
  return ServiceProcess.start({ DATABASE_URL: postgres.serviceUrl, API_KEY_CACHE_SECONDS: '3600' });
}

const unavailable = (traffic: OrderTraffic): number => traffic.count('503 service_unavailable');

/** Causes a failure during traffic, and checks all responses, from before, during and after it, against the final orders. */
async function expectSurvival(
  causeFailure: (traffic: OrderTraffic, random: SeededRandom) => Promise<void>,
): Promise<OrderTraffic> {
  let traffic!: OrderTraffic;
  await withSeed(async (random) => {
    traffic = new OrderTraffic({
      baseUrls: () => services.map(({ baseUrl }) => baseUrl),
      db,
      key,
      random: random.fork(),
      clients: 12,
      ledgers: 2,
    });
    await traffic.start();
    try {
      await waitFor(() => traffic.count('204') >= 50, 'cancels succeed');
      await causeFailure(traffic, random);
      const [cancelled, listed] = [traffic.count('204'), traffic.count('200')];
      await waitFor(
        () => traffic.count('204') >= cancelled + 50 && traffic.count('200') >= listed + 20,
        'cancels and lists succeed again',
        { withinMs: 15_000 },
      );
    } finally {
      await traffic.stop();
    }
    expect(await traffic.violations()).toEqual([]);
  });
  return traffic;
}

async function untilUnavailable(traffic: OrderTraffic): Promise<void> {
  const before = unavailable(traffic);
  await waitFor(() => unavailable(traffic) > before, 'a request gets 503');
}

describe('no committed response is lost, nothing is half done, and the service recovers when PostgreSQL', () => {
  it('is stopped and started again', async () => {
    await expectSurvival(async (traffic) => {
      await postgres.stop();
      await untilUnavailable(traffic);
      await postgres.start();
    });
  });

  it('crashes and recovers repeatedly', async () => {
    await expectSurvival(async (traffic) => {
      for (let crash = 0; crash < 2; crash++) {
        await postgres.crash();
        await untilUnavailable(traffic);
        await waitFor(
          () =>
            postgres.run('SELECT 1').then(
              () => true,
              () => false,
            ),
          'PostgreSQL has recovered',
        );
        const cancelled = traffic.count('204');
        await waitFor(() => traffic.count('204') > cancelled, 'cancels succeed again', { withinMs: 15_000 });
      }
    });
  });

  it('ends sessions during statements', async () => {
    await expectSurvival(async (traffic, random) => {
      const before = unavailable(traffic);
      for (let ended = 0; ended < 60 || unavailable(traffic) === before; ended++) {
        await db.query(
          `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
           WHERE application_name LIKE 'petstore-%' ORDER BY md5(pid::text || $1) LIMIT 2`,
          [random.next()],
        );
      }
    });
  });

  it('is read-only for some time, during which lists continue', async () => {
    await expectSurvival(async (traffic) => {
      await postgres.run('ALTER SYSTEM SET default_transaction_read_only = on');
      await postgres.run('SELECT pg_reload_conf()');
      await untilUnavailable(traffic);
      const listed = traffic.count('200') + traffic.count('304');
      await waitFor(() => traffic.count('200') + traffic.count('304') > listed + 20, 'lists continue');
      await postgres.run('ALTER SYSTEM RESET default_transaction_read_only');
      await postgres.run('SELECT pg_reload_conf()');
    });
  });

  it('has no free connection', async () => {
    await expectSurvival(async (traffic) => {
      const held: pg.Client[] = [];
      try {
        // Frees some connections repeatedly, and competes with the service for them.
        while (unavailable(traffic) < 20) {
          // The connection of the test may be among those that find no place; the next round frees some again.
          await db
            .query(
              `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'petstore-%' LIMIT 5`,
            )
            .catch(() => undefined);
          held.push(
            ...(await Promise.all(Array.from({ length: 10 }, () => holdConnection()))).filter(
              (client) => client !== undefined,
            ),
          );
        }
      } finally {
        await Promise.all(held.map((client) => client.end()));
      }
    });
  });

  it('loses its network connections repeatedly', async () => {
    await expectSurvival(async (traffic, random) => {
      for (let cut = 0; cut < 10; cut++) {
        const next = traffic.total + random.below(60);
        await waitFor(() => traffic.total > next, 'some requests later');
        postgres.network.closeConnections();
      }
    });
  });
});

/** Opens a connection and keeps it open; undefined when none is free. */
async function holdConnection(): Promise<pg.Client | undefined> {
  const client = new pg.Client(postgres.url);
  client.on('error', () => undefined);
  return client.connect().then(
    () => client,
    () => undefined,
  );
}

describe('a service that is killed', () => {
  it('keeps every committed response and leaves no open transaction, whenever it is killed', async () => {
    await expectSurvival(async (traffic, random) => {
      for (let kill = 0; kill < 2; kill++) {
        const at = traffic.count('204') + random.below(40);
        await waitFor(() => traffic.count('204') > at, 'some cancels later');
        const victim = kill % services.length;
        await services[victim]!.stop('SIGKILL');
        services[victim] = await startService();
      }
      await waitFor(
        async () =>
          (
            await db.query(`SELECT FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND
          application_name LIKE 'petstore-%' AND state_change < now() - interval '2 seconds'`)
          ).rowCount === 0,
        'no killed process has an open transaction',
      );
    });
  });
});
