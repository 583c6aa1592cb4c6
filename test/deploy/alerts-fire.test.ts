import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { dump } from 'js-yaml';
import { UsageWriter } from '../../src/api-keys/usage/usage-writer.js';
import { Metrics } from '../../src/metrics/metrics.js';
import { seedOrders } from '../../src/orders/seed-orders.js';
import { call, cancelOrder, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { describeWith } from '../helpers/describe-with.js';
import { StalledClient } from '../helpers/raw-http.js';
import { RedisServer } from '../helpers/redis-server.js';
import { TcpProxy } from '../helpers/tcp-proxy.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

const ALERTS = join(__dirname, '..', '..', 'deploy', 'prometheus', 'alerts.yml');
/** A list of 26 MB, more than the buffers between PostgreSQL and a client hold. */
const ORDERS = 300_000;
const CONNECTIONS_MAX = 100;

type Series = ReadonlyMap<string, number>;

describeWith(
  'prometheus',
  'promtool',
  'redis-server',
)('the alerts, with what a service exports', () => {
  const folder = mkdtempSync(join(tmpdir(), 'petstore-alerts-'));
  let database: TestDatabase;
  let proxy: TcpProxy;
  let redis: RedisServer;
  let service: TestService;
  let key: string;
  let initial: Series;
  let failed: Series;

  beforeAll(async () => {
    database = await createTestDatabase();
    const client = await database.db.connect();
    await seedOrders(client, ORDERS).finally(() => client.release());
    ({ key } = await insertKey(database.db));
    proxy = await TcpProxy.start(database.url);
    redis = await RedisServer.start();
    service = await startTestService({
      database: { ...database, url: proxy.urlFor(database.url) },
      environment: { REDIS_URL: redis.url, LIST_CACHE_MB: '0', MAX_CONNECTIONS: String(CONNECTIONS_MAX) },
    });
    initial = await scrape();
    await failInEveryWay();
    failed = await scrape();
  }, 90_000);
  afterAll(async () => {
    proxy.restore();
    await service.stop();
    await proxy.close();
    await redis.stop();
    await database.drop();
    rmSync(folder, { recursive: true });
  });

  it('are silent before anything fails', () => {
    expectFiring([], () => initial);
  });

  it('fire after the first failures of a process', () => {
    expectFiring(
      [
        ...['PetstoreConnectionsDropped', 'PetstoreErrors', 'PetstoreLimiterDegraded', 'PetstoreListenerDisconnected'],
        ...['PetstoreListsFail', 'PetstoreUnready'],
      ],
      () => failed,
    );
  });

  it('fire when the failures go on', () => {
    expectFiring(
      [
        // The clock of the test is not that of Redis.
        ...['PetstoreClock', 'PetstoreConnectionsDropped', 'PetstoreErrors', 'PetstoreLimiterDegraded'],
        ...['PetstoreListNotIntact', 'PetstoreListenerDisconnected', 'PetstoreListsFail', 'PetstoreListsFromDatabase'],
        ...[
          'PetstoreLockWaits',
          'PetstoreRecoveries',
          'PetstoreRejections',
          'PetstoreSlowCancels',
          'PetstoreUnready',
          'PetstoreUsageNotWritten',
        ],
      ],
      () => failed,
      'again at every scrape',
    );
  });

  async function failInEveryWay(): Promise<void> {
    const { baseUrl, port, app } = service;
    // A list is read from the database, and another one is interrupted by it.
    await (await listOrders(baseUrl, key)).text();
    const reader = await StalledClient.open(port, key);
    proxy.closeConnections();
    await reader.readToEnd();
    // Another application disables triggers and locks an order.
    await database.db.query('ALTER TABLE orders DISABLE TRIGGER ALL');
    await (await listOrders(baseUrl, key, { 'Accept-Encoding': 'gzip' })).text();
    const id = await insertOrder(database.db, { id: '9000000' });
    const holder = await database.db.connect();
    await holder.query('BEGIN');
    await holder.query('SELECT FROM orders WHERE id = $1 FOR UPDATE', [id]);
    await Promise.all(Array.from({ length: 20 }, () => cancelOrder(baseUrl, id, key)));
    await holder.query('ROLLBACK');
    holder.release();
    // A client without a key, from one address.
    for (let request = 0; request < 160; request++) {
      await (await call(baseUrl, 'GET', '/store/orders')).text();
    }
    const recoveries = 'petstore_recoveries_total{dependency="database"}';
    await waitFor(async () => (await scrape()).get(recoveries) === 1, 'the service listens again');
    await redis.kill();
    proxy.rejectConnections();
    await cancelOrder(baseUrl, id, key);
    await waitFor(async () => {
      await cancelOrder(baseUrl, id, key);
      return (await scrape()).get('petstore_limiter_store_degraded') === 1;
    }, 'the service counts without Redis');
    await app.get(UsageWriter).flush();
    await openTooManyConnections(port);
  }

  async function openTooManyConnections(port: number): Promise<void> {
    const sockets: Socket[] = [];
    await waitFor(async () => {
      sockets.push(connect(port, '127.0.0.1').on('error', () => undefined));
      return (await scrape()).get('petstore_connections_dropped_total') !== 0;
    }, 'a connection is dropped');
    sockets.forEach((socket) => socket.destroy());
  }

  /** The exported values by series, as promtool writes series. */
  async function scrape(): Promise<Series> {
    const text = await service.app.get(Metrics).registry.metrics();
    return new Map(
      [...text.matchAll(/^(\w+(?:\{.*\})?) (\S+)$/gm)].map(([, series = '', value]) => [series, Number(value)]),
    );
  }

  /**
   * Checks which alerts fire while a target exports the initial values for five minutes, and those of `later` for half an hour.
   * @param again counters increase by the same amount at every scrape instead of once
   */
  function expectFiring(alerts: readonly string[], later: () => Series, again?: 'again at every scrape'): void {
    const names = new Set(readFileSync(ALERTS, 'utf8').match(/\b(?:petstore|http)_\w+/g));
    const input_series = [...later()].flatMap(([series, value]) => {
      const [, name = '', labels] = /^(\w+)(?:\{(.*)\})?$/.exec(series) ?? [];
      const before = initial.get(series);
      const step = again !== undefined && /_(?:total|count|bucket)$/.test(name) ? value - (before ?? 0) : 0;
      const target = `{job="petstore",instance="a"${labels === undefined ? '' : `,${labels}`}}`;
      return names.has(name) && Number.isFinite(value)
        ? [{ series: `${name}${target}`, values: `${before ?? '_'}x20 ${value}+${step}x120` }]
        : [];
    });
    const up = { series: 'up{job="petstore",instance="a"}', values: '1x141' };
    const firing = (minutes: number): object => ({
      expr: 'count by (alertname) (ALERTS{alertstate="firing"})',
      eval_time: `${minutes * 60}s`,
      exp_samples: alerts.map((alertname) => ({ labels: `{alertname="${alertname}"}`, value: 1 })),
    });
    cpSync(ALERTS, join(folder, 'alerts.yml'));
    // What happened once is looked at soon, and what goes on when every alert has had its time.
    const test = {
      ...{ interval: '15s', input_series: [up, ...input_series] },
      promql_expr_test: [firing(again === undefined ? 9.5 : 34)],
    };
    const tests = { rule_files: ['alerts.yml'], evaluation_interval: '15s', tests: [test] };
    writeFileSync(join(folder, 'test.yml'), dump(tests));
    const output = execFileSync('promtool', ['test', 'rules', 'test.yml'], { cwd: folder, encoding: 'utf8' });
    expect(output).toContain('SUCCESS');
  }
});
