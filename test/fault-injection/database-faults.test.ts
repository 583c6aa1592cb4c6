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
  // Keys are remembered for the whole test, so that it is the operations that meet the fault.
  return ServiceProcess.start({ DATABASE_URL: postgres.serviceUrl, API_KEY_CACHE_SECONDS: '3600' });
}

const unavailable = (traffic: OrderTraffic): number => traffic.count('503 service_unavailable');

/** Lets something bad happen in the middle of everything, and holds all that was said before, meanwhile and after against what became of the orders. */
async function expectSurvival(
  inflict: (traffic: OrderTraffic, random: SeededRandom) => Promise<void>,
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
      await waitFor(() => traffic.count('204') >= 50, 'all goes well');
      await inflict(traffic, random);
      const [cancelled, listed] = [traffic.count('204'), traffic.count('200')];
      await waitFor(
        () => traffic.count('204') >= cancelled + 50 && traffic.count('200') >= listed + 20,
        'all goes well again, by itself',
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
  await waitFor(() => unavailable(traffic) > before, 'the fault is noticed');
}

describe('nothing that was answered is lost, nothing is half done, and all goes well again by itself, when PostgreSQL', () => {
  it('is stopped and started again', async () => {
    await expectSurvival(async (traffic) => {
      await postgres.stop();
      await untilUnavailable(traffic);
      await postgres.start();
    });
  });

  it('crashes and recovers, over and over', async () => {
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

  it('ends sessions in the middle of their work', async () => {
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

  it('is read-only for a while, which lists do not mind', async () => {
    await expectSurvival(async (traffic) => {
      await postgres.run('ALTER SYSTEM SET default_transaction_read_only = on');
      await postgres.run('SELECT pg_reload_conf()');
      await untilUnavailable(traffic);
      const listed = traffic.count('200') + traffic.count('304');
      await waitFor(() => traffic.count('200') + traffic.count('304') > listed + 20, 'lists go on');
      await postgres.run('ALTER SYSTEM RESET default_transaction_read_only');
      await postgres.run('SELECT pg_reload_conf()');
    });
  });

  it('has no connection left', async () => {
    await expectSurvival(async (traffic) => {
      const hogs: pg.Client[] = [];
      // Room for one more is made again and again, and taken by whoever comes first.
      while (unavailable(traffic) < 20) {
        await db.query(
          `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'petstore-%' LIMIT 5`,
        );
        hogs.push(
          ...(await Promise.all(Array.from({ length: 10 }, () => hog()))).filter((client) => client !== undefined),
        );
      }
      await Promise.all(hogs.map((client) => client.end()));
    });
  });

  it('is cut off over and over', async () => {
    await expectSurvival(async (traffic, random) => {
      for (let cut = 0; cut < 10; cut++) {
        const next = traffic.total + random.below(60);
        await waitFor(() => traffic.total > next, 'some requests later');
        postgres.network.closeConnections();
      }
    });
  });
});

/** Takes a connection and keeps it; undefined when there is none to be had. */
async function hog(): Promise<pg.Client | undefined> {
  const client = new pg.Client(postgres.url);
  client.on('error', () => undefined);
  return client.connect().then(
    () => client,
    () => undefined,
  );
}

describe('a service that is killed', () => {
  it('at any moment has kept every promise that it made, and leaves nothing behind', async () => {
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
        'no session of the killed is left in the middle of something',
      );
    });
  });
});
