import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { call, cancelOrder, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { describeWith } from '../helpers/describe-with.js';
import { freePort } from '../helpers/free-port.js';
import { PrometheusServer } from '../helpers/prometheus-server.js';
import { RedisServer } from '../helpers/redis-server.js';
import { ReplicatedPostgres } from '../helpers/replicated-postgres.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { waitFor } from '../helpers/wait-for.js';

const DEPLOY = join(__dirname, '..', '..', 'deploy');
/** Scrapes of one second each: long enough for every function over time. */
const SCRAPES = 30;
const LIST_BLOCK_IDS = 16_384;

interface RuleGroups {
  readonly groups: readonly {
    readonly rules: readonly { readonly name: string; readonly health: string; readonly state: string }[];
  }[];
}

const { panels } = JSON.parse(readFileSync(join(DEPLOY, 'grafana', 'dashboards', 'petstore.json'), 'utf8')) as {
  panels: readonly { readonly title: string; readonly targets?: readonly { readonly expr: string }[] }[];
};

let database: ReplicatedPostgres;
let redis: RedisServer;
let service: ServiceProcess;
let prometheus: PrometheusServer;
let startSeconds: number;
let endSeconds: number;

describeWith('prometheus', 'redis-server')('a Prometheus with deploy/prometheus', () => {
  beforeAll(async () => {
    database = await ReplicatedPostgres.create();
    redis = await RedisServer.start();
    const metricsPort = await freePort();
    service = await ServiceProcess.start({
      DATABASE_URL: database.url,
      DATABASE_REPLICA_URL: database.replicaUrl,
      REDIS_URL: redis.url,
      METRICS_PORT: String(metricsPort),
      RATE_LIMIT_BAN_SECONDS: '10',
    });
    prometheus = await PrometheusServer.start(`127.0.0.1:${metricsPort}`);
    startSeconds = Date.now() / 1_000;
    await runTraffic();
    endSeconds = Date.now() / 1_000;
  });
  afterAll(async () => {
    await prometheus.stop();
    await service.stop();
    await redis.stop();
    await database.drop();
  });

  it('scrapes the service', async () => {
    const { activeTargets } = await prometheus.get<{ activeTargets: { health: string; lastError: string }[] }>(
      'targets',
    );
    expect(activeTargets).toMatchObject([{ health: 'up', lastError: '' }]);
  });

  it('evaluates every alert without an error', async () => {
    const { groups } = await prometheus.get<RuleGroups>('rules', { type: 'alert' });
    const rules = groups.flatMap((group) => group.rules);
    expect(rules.length).toBeGreaterThan(15);
    expect(rules.filter(({ health }) => health !== 'ok')).toEqual([]);
    expect(rules.find(({ name }) => name === 'PetstoreDown')?.state).toBe('inactive');
  });

  it('has data for every query of the dashboard', async () => {
    const empty: string[] = [];
    for (const { title, targets = [] } of panels) {
      const queries = targets.map(({ expr }) => withVariables(expr));
      const results = await Promise.all(queries.map((query) => prometheus.queryRange(query, startSeconds, endSeconds)));
      empty.push(...(results.some(({ length }) => length === 0) ? [title] : []));
    }
    expect(empty).toEqual([]);
  });
});

function withVariables(expression: string): string {
  return expression.replaceAll('$__rate_interval', '10s').replaceAll('$instance', '.*');
}

/** Lists, cancels and rejections, with an outage of Redis and a standby that falls behind, until Prometheus has scraped often enough. */
async function runTraffic(): Promise<void> {
  const { baseUrl } = service;
  const { key } = await insertKey(database.db);
  const { key: spent } = await insertKey(database.db, { requests_per_minute: 1 });
  await database.db.query(
    `INSERT INTO orders (id, pet_id, quantity) SELECT id, 1, 1 FROM generate_series(1000000, ${1_000_000 + 4 * LIST_BLOCK_IDS}) AS id`,
  );
  const scrapes = async (): Promise<number> => {
    const query = `count_over_time(up{job="petstore"}[10m])`;
    const { result } = await prometheus.get<{ result: { value: [number, string] }[] }>('query', { query });
    return Number(result[0]?.value[1] ?? 0);
  };
  let cancelled = 1_000_000;
  const cancelNext = (): Promise<Response> => cancelOrder(baseUrl, String(cancelled++), key);
  let isOut = false;
  let wasOut = false;
  for (let round = 0, done = 0; done < SCRAPES; round++) {
    await Promise.all([
      ...Array.from({ length: 5 + (round % 40) }, cancelNext),
      listOrders(baseUrl, key, { 'Accept-Encoding': 'gzip' }).then((response) => response.text()),
      call(baseUrl, 'GET', '/store/orders'),
      cancelOrder(baseUrl, '1', spent),
      cancelOrder(baseUrl, '1000000', key),
    ]);
    await insertOrder(database.db, { id: String(2_000_000 + (round % 3) * LIST_BLOCK_IDS + round) });
    done = await scrapes();
    if (!wasOut && done > SCRAPES / 2) {
      await redis.kill();
      await database.pauseReplay();
      [isOut, wasOut] = [true, true];
    } else if (isOut && done > SCRAPES / 2 + 5) {
      await redis.restart();
      await database.resumeReplay();
      isOut = false;
    }
  }
  await waitFor(async () => (await scrapes()) > SCRAPES, 'the last requests are scraped');
}
