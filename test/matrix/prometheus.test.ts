import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { call, cancelOrder, listOrders } from '../helpers/api.js';
import { startBrowser } from '../helpers/browser.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { drawDashboard, type Panel, type PanelData } from '../helpers/dashboard-picture.js';
import { describeWith } from '../helpers/describe-with.js';
import { freePort } from '../helpers/free-port.js';
import { PrometheusServer } from '../helpers/prometheus-server.js';
import { RedisServer } from '../helpers/redis-server.js';
import { ReplicatedPostgres } from '../helpers/replicated-postgres.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { waitFor } from '../helpers/wait-for.js';

/** `npm run screenshots` replaces the picture in the documentation. */
const TAKE_SCREENSHOTS = process.env.SCREENSHOTS === 'true';
const DEPLOY = join(__dirname, '..', '..', 'deploy');
const PICTURE = join(__dirname, '..', '..', 'docs', 'images', 'dashboard.png');
/** Scrapes of one second each: long enough for every function over time, and longer for a picture to look at. */
const SCRAPES = TAKE_SCREENSHOTS ? 60 : 30;
const LIST_BLOCK_IDS = 16_384;

interface RuleGroups {
  readonly groups: readonly {
    readonly rules: readonly { readonly name: string; readonly health: string; readonly state: string }[];
  }[];
}

const { panels } = JSON.parse(readFileSync(join(DEPLOY, 'grafana', 'dashboards', 'petstore.json'), 'utf8')) as {
  panels: readonly Panel[];
};

let database: ReplicatedPostgres;
let redis: RedisServer;
let service: ServiceProcess;
let prometheus: PrometheusServer;
let startSeconds: number;
let endSeconds: number;

describeWith(
  'prometheus',
  'redis-server',
  'chromium',
)('a Prometheus with deploy/prometheus', () => {
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

  it('has data for every query of the dashboard, which is drawn as a picture', async () => {
    const data: PanelData[] = [];
    for (const panel of panels) {
      const queries = (panel.targets ?? []).map(({ expr }) => withVariables(expr));
      const results = await Promise.all(queries.map((query) => prometheus.queryRange(query, startSeconds, endSeconds)));
      data.push({ panel, results });
    }
    const browser = await startBrowser();
    const folder = mkdtempSync(join(tmpdir(), 'petstore-picture-'));
    try {
      const page = await browser.newPage({ viewport: { width: 1_620, height: 1_000 } });
      await page.setContent(drawDashboard('Store orders', data));
      const path = TAKE_SCREENSHOTS ? PICTURE : join(folder, 'dashboard.png');
      await page.screenshot({ path, fullPage: true });
      const titles = await page.locator('h2').allTextContents();
      expect(titles).toEqual(panels.map(({ title }) => title));
      expect(statSync(path).size).toBeGreaterThan(50_000);
      const empty = data.flatMap(({ panel: { title }, results }) =>
        results.some(({ length }) => length === 0) ? [title] : [],
      );
      expect(empty).toEqual([]);
    } finally {
      await browser.close();
      rmSync(folder, { recursive: true, force: true });
    }
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
