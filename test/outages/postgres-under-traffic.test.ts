import pg from 'pg';
import { insertKey } from '../helpers/builders.js';
import { FailingPostgres } from '../helpers/failing-postgres.js';
import { freePort } from '../helpers/free-port.js';
import type { SeededRandom } from '../helpers/seeded-random.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { waitFor } from '../helpers/wait-for.js';
import { type OrderTraffic, withTraffic } from '../models/order-traffic.js';

/** soak.mjs sets it: after each failure once, random ones follow for so long. */
const SOAK_MINUTES = Number(process.env.SOAK_MINUTES ?? 0);
/** Growth that garbage collection explains. */
const GROWTH_BYTES_MAX = 48 * 1_024 * 1_024;
const GROWTH_FILES_MAX = 20;

jest.setTimeout((SOAK_MINUTES + 3) * 60_000);

const UNAVAILABLE = '503 service_unavailable';

let postgres: FailingPostgres;
let db: pg.Pool;
let key: string;
let metricsPorts: number[];
/** Only the last one is ever replaced, so that leaks of the first one show. */
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
      await postgres.crash();
      await traffic.until({ [UNAVAILABLE]: 1 });
      const hasRecovered = (): Promise<boolean> => postgres.run('SELECT 1').then(Boolean, () => false);
      await waitFor(hasRecovered, 'PostgreSQL has recovered');
      await traffic.until({ '204': 1 });
    }
  },
  'PostgreSQL is read-only for some time, during which lists continue': async (traffic) => {
    await postgres.run('ALTER SYSTEM SET default_transaction_read_only = on');
    await postgres.run('SELECT pg_reload_conf()');
    await traffic.until({ [UNAVAILABLE]: 1 });
    await traffic.until({ '200': 10, '304': 10 });
    await postgres.run('ALTER SYSTEM RESET default_transaction_read_only');
    await postgres.run('SELECT pg_reload_conf()');
  },
  'PostgreSQL has no free connection': async (traffic) => {
    const held: pg.Client[] = [];
    const before = traffic.count(UNAVAILABLE);
    try {
      // Frees some connections repeatedly, and competes with the service for them.
      while (traffic.count(UNAVAILABLE) < before + 20) {
        // The connection of the test may be among those that find no place; the next round frees some again.
        await db
          .query(
            `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'petstore-%' LIMIT 5`,
          )
          .catch(() => undefined);
        const opened = await Promise.all(Array.from({ length: 10 }, holdConnection));
        held.push(...opened.filter((client) => client !== undefined));
      }
    } finally {
      await Promise.all(held.map((client) => client.end()));
    }
  },
  'the network closes connections repeatedly': async (traffic, random) => {
    for (let cut = 0; cut < 10; cut++) {
      const next = traffic.total + random.below(30);
      await waitFor(() => traffic.total > next, 'some requests later');
      postgres.network.closeConnections();
    }
  },
  'a service is killed': async (traffic, random) => {
    await traffic.until({ '204': 1 + random.below(40) });
    await services[1]!.stop('SIGKILL');
    services[1] = await startService(metricsPorts[1]!);
    const abandoned = `SELECT FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND
      application_name LIKE 'petstore-%' AND state_change < now() - interval '2 seconds'`;
    await waitFor(async () => (await db.query(abandoned)).rowCount === 0, 'no killed process has an open transaction');
  },
};

function startService(metricsPort: number): Promise<ServiceProcess> {
  return ServiceProcess.start({
    DATABASE_URL: postgres.serviceUrl,
    METRICS_PORT: String(metricsPort),
    // Keys are cached for the whole test, so that the failure affects the operations and not the key look-up.
    API_KEY_CACHE_SECONDS: '3600',
  });
}

/** Opens a connection and keeps it open; undefined when none is free. */
async function holdConnection(): Promise<pg.Client | undefined> {
  const client = new pg.Client(postgres.url);
  client.on('error', () => undefined);
  return client.connect().catch(() => undefined);
}

/** @param fixed the failure, by default a random one @returns its name */
async function expectSurvival(fixed?: string): Promise<string> {
  let name = '';
  await db.query('TRUNCATE orders');
  await withTraffic({ services: () => services, db, key, clients: 12, ledgers: 2 }, async (traffic, random) => {
    await traffic.until({ '204': 20 });
    name = fixed ?? random.pick(Object.keys(FAULTS));
    await FAULTS[name]!(traffic, random);
    await traffic.until({ '204': 25, '200': 10 });
  });
  for (const service of services) {
    expect(service.takeOutput()).not.toMatch(/"level":(?:50|60)/);
  }
  return name;
}

describe('no committed response is lost, nothing is half done, and the services recover when', () => {
  beforeAll(async () => {
    postgres = await FailingPostgres.create({ max_connections: '60' });
    db = postgres.pool(20);
    ({ key } = await insertKey(db));
    metricsPorts = [await freePort(), await freePort()];
    services = await Promise.all(metricsPorts.map(startService));
  });
  afterAll(async () => {
    await Promise.all(services.map((service) => service.stop('SIGKILL')));
    await db.end();
    await postgres.discard();
  });

  it.each(Object.keys(FAULTS))('%s', async (name) => {
    await expectSurvival(name);
  });

  if (SOAK_MINUTES > 0) {
    it(`these happen at random for ${SOAK_MINUTES} minutes, and leak neither memory nor files nor connections`, async () => {
      const samples: ServiceMetrics[] = [];
      const endMs = performance.now() + SOAK_MINUTES * 60_000;
      while (performance.now() < endMs) {
        const name = await expectSurvival();
        const sample = await ServiceMetrics.scrape(metricsPorts[0]!);
        samples.push(sample);
        process.stdout.write(`${name}: ${sample.residentBytes} bytes, ${sample.openFiles} files\n`);
      }
      // The first rounds fill caches, pools and the heap.
      const steady = samples.slice(Math.floor(samples.length / 3));
      expect(growth(steady.map(({ residentBytes }) => residentBytes))).toBeLessThan(GROWTH_BYTES_MAX);
      expect(growth(steady.map(({ openFiles }) => openFiles))).toBeLessThan(GROWTH_FILES_MAX);
      await waitFor(
        async () => (await ServiceMetrics.scrape(metricsPorts[0]!)).connectionsInUse === 0,
        'the pools are idle',
      );
    });
  }
});

/** @returns the median of the second half minus that of the first half */
function growth(values: readonly number[]): number {
  const half = Math.ceil(values.length / 2);
  const median = (part: readonly number[]): number => part.toSorted((a, b) => a - b)[Math.floor(part.length / 2)] ?? 0;
  return median(values.slice(-half)) - median(values.slice(0, half));
}
