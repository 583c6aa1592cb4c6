import type pg from 'pg';
import { insertKey } from '../helpers/builders.js';
import { FailingPostgres } from '../helpers/failing-postgres.js';
import { freePort } from '../helpers/free-port.js';
import { fuzzConnection } from '../helpers/fuzz-connection.js';
import { describeWithRedis, RedisServer } from '../helpers/redis-server.js';
import { type SeededRandom, withSeed } from '../helpers/seeded-random.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { waitFor } from '../helpers/wait-for.js';
import { makeAttack } from '../hostile/corpus.js';
import { OrderTraffic } from '../model/order-traffic.js';
import { FAULTS } from './faults.js';
import { QuotaWatch } from './quota-watch.js';

const MINUTES = Number(process.env.SOAK_MINUTES ?? '10');
jest.setTimeout((MINUTES + 5) * 60_000);

const PER_MINUTE = 200;
/** Responses to wait for before and after each fault. */
const CALM_RESPONSES = 600;
const MEGABYTE = 1_024 * 1_024;
/** Growth that garbage collection explains. */
const GROWTH_BYTES_MAX = 48 * MEGABYTE;
const GROWTH_FILES_MAX = 20;

interface Running {
  readonly metricsPort: number;
  process: ServiceProcess;
}

describeWithRedis(`three services under mixed load and random faults, for ${MINUTES} minutes`, () => {
  let postgres: FailingPostgres;
  let redis: RedisServer;
  let db: pg.Pool;
  const services: Running[] = [];
  /** Stop what has been started, also after a failure during the set-up. */
  const releases: (() => Promise<unknown>)[] = [];

  beforeAll(async () => {
    postgres = await FailingPostgres.create({ max_connections: '150' });
    releases.push(() => postgres.discard());
    db = postgres.pool(25);
    releases.push(() => db.end());
    redis = await RedisServer.start();
    releases.push(() => redis.stop());
    for (let service = 0; service < 3; service++) {
      const metricsPort = await freePort();
      const running = { metricsPort, process: await startService(metricsPort) };
      services.push(running);
      releases.push(() => running.process.stop('SIGKILL'));
    }
  });
  afterAll(async () => {
    for (const release of releases.reverse()) {
      await release();
    }
  });

  function startService(metricsPort: number): Promise<ServiceProcess> {
    return ServiceProcess.start({
      DATABASE_URL: postgres.serviceUrl,
      REDIS_URL: redis.url,
      METRICS_PORT: String(metricsPort),
      RATE_LIMIT_BAN_THRESHOLD: '0',
    });
  }

  const baseUrls = (): string[] => services.map(({ process }) => process.baseUrl);

  /** Replaces the last service. The others run through the whole test, so that leaks show. */
  async function replaceService(signal: NodeJS.Signals): Promise<void> {
    const last = services.at(-1)!;
    await last.process.stop(signal);
    last.process = await startService(last.metricsPort);
  }

  /** Waits until every service cancels and lists. */
  async function waitForRecovery(key: string): Promise<void> {
    for (const url of baseUrls()) {
      const hasRecovered = async (): Promise<boolean> => {
        const headers = { Authorization: `Bearer ${key}` };
        const successes = await Promise.all([
          fetch(`${url}/v1/store/orders/0`, { method: 'DELETE', headers }).then(({ status }) => status === 404),
          fetch(`${url}/v1/store/orders`, { headers }).then(async (response) => (await response.text()).endsWith(']')),
        ]).catch(() => [false]);
        return successes.every(Boolean);
      };
      await waitFor(hasRecovered, 'every service cancels and lists', { withinMs: 30_000 });
    }
  }

  function startAttacks(random: SeededRandom, key: string): { stop(): Promise<number> } {
    let [stopped, attacks] = [false, 0];
    const running = (async () => {
      while (!stopped) {
        const { port } = random.pick(services).process;
        // A service that is being replaced refuses connections. The fuzz test checks the responses.
        await fuzzConnection(port, makeAttack(random, key), 'GET /nowhere HTTP/1.1\r\nHost: localhost').catch(
          () => undefined,
        );
        attacks++;
      }
    })();
    return {
      stop: async () => {
        stopped = true;
        await running;
        return attacks;
      },
    };
  }

  it('violates no model after any fault, and leaks neither memory nor files nor connections', async () => {
    await withSeed(async (random) => {
      const { key } = await insertKey(db);
      const spent = await insertKey(db, { requests_per_minute: PER_MINUTE, requests_per_day: 1_000_000 });
      const quotas = new QuotaWatch(baseUrls, spent.key, PER_MINUTE);
      quotas.start();
      const attacks = startAttacks(random.fork(), key);
      const endMs = performance.now() + MINUTES * 60_000;
      const names = Object.keys(FAULTS);
      const responses = new Map<string, number>();
      const recoveries: { readonly fault: string; readonly ms: number }[] = [];
      const samples: ServiceMetrics[][] = [];
      let [lists, changes] = [0, 0];
      for (let round = 0; performance.now() < endMs; round++) {
        // Every fault once, then random ones.
        const fault = names[round] ?? random.pick(names);
        await db.query('TRUNCATE orders');
        const traffic = new OrderTraffic({ baseUrls, db, key, random: random.fork(), clients: 16, ledgers: 3 });
        await traffic.start();
        await waitForResponses(traffic, CALM_RESPONSES);
        await FAULTS[fault]!({
          postgres,
          redis,
          random,
          replaceService,
          suspendQuotaCheck: () => quotas.suspendCheck(),
        });
        const healedMs = performance.now();
        await waitForRecovery(key);
        recoveries.push({ fault, ms: Math.round(performance.now() - healedMs) });
        await waitForResponses(traffic, traffic.total + CALM_RESPONSES);
        await traffic.stop();
        expect({ fault, violations: await traffic.violations() }).toEqual({ fault, violations: [] });
        traffic.responses.forEach((count, name) => responses.set(name, (responses.get(name) ?? 0) + count));
        lists += traffic.lists.size;
        changes += traffic.ledgers.reduce((sum, { size }) => sum + size, 0);
        samples.push(await Promise.all(services.map(({ metricsPort }) => ServiceMetrics.scrape(metricsPort))));
        for (const { process } of services) {
          expect(process.takeOutput()).not.toMatch(/"level":(?:50|60)(?!.*Redis)/);
        }
      }
      await quotas.stop();
      const attacked = await attacks.stop();
      report({ responses, recoveries, samples, lists, changes, attacked, minutes: quotas.exhaustedMinutes });
      expect(quotas.violations()).toEqual([]);
      await waitFor(async () => {
        const metrics = await Promise.all(services.map(({ metricsPort }) => ServiceMetrics.scrape(metricsPort)));
        return metrics.every(({ connectionsInUse }) => connectionsInUse === 0);
      }, 'the pools are idle');
      for (const service of [0, 1]) {
        const metrics = samples.map((sample) => sample[service]!);
        // The first rounds fill caches, pools and the heap.
        const steady = metrics.slice(Math.floor(metrics.length / 3));
        expect(growth(steady.map(({ residentBytes }) => residentBytes))).toBeLessThan(GROWTH_BYTES_MAX);
        expect(growth(steady.map(({ openFiles }) => openFiles))).toBeLessThan(GROWTH_FILES_MAX);
      }
    });
  });
});

async function waitForResponses(traffic: OrderTraffic, total: number): Promise<void> {
  await waitFor(() => traffic.total >= total, `${total} responses have arrived`, { withinMs: 60_000 });
}

/** @returns the median of the second half minus that of the first half */
function growth(values: readonly number[]): number {
  const half = Math.ceil(values.length / 2);
  return median(values.slice(-half)) - median(values.slice(0, half));
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

function report(run: {
  readonly responses: ReadonlyMap<string, number>;
  readonly recoveries: readonly { readonly fault: string; readonly ms: number }[];
  readonly samples: readonly (readonly ServiceMetrics[])[];
  readonly lists: number;
  readonly changes: number;
  readonly attacked: number;
  readonly minutes: number;
}): void {
  const faults = [...new Set(run.recoveries.map(({ fault }) => fault))];
  const lines = [
    `rounds: ${run.samples.length}; responses: ${[...run.responses.values()].reduce((sum, count) => sum + count, 0)}`,
    ...[...run.responses].sort().map(([name, count]) => `  ${name}: ${count}`),
    `lists checked: ${run.lists}, against ${run.changes} numbered changes`,
    `attacks: ${run.attacked}; minutes in which the quota was exhausted exactly: ${run.minutes}`,
    'faults (occurrences, slowest recovery):',
    ...faults.map((fault) => {
      const times = run.recoveries.filter((recovery) => recovery.fault === fault).map(({ ms }) => ms);
      return `  ${fault}: ${times.length}, ${Math.max(...times)} ms`;
    }),
    'services that ran throughout, per round (MB resident/open files):',
    ...[0, 1].map(
      (service) =>
        `  ${run.samples
          .map((sample) => `${Math.round(sample[service]!.residentBytes / MEGABYTE)}/${sample[service]!.openFiles}`)
          .join(' ')}`,
    ),
  ];
  process.stdout.write(`\n${lines.join('\n')}\n`);
}
