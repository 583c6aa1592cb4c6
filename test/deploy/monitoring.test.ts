import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { call, cancelOrder, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { describeWith } from '../helpers/describe-if.js';
import { lockOrder, untilLockWaits } from '../helpers/lock-waits.js';
import { OwnPostgres } from '../helpers/own-postgres.js';
import { RawClient } from '../helpers/raw-client.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { type ProcessContext, useServiceProcess } from '../helpers/service-process.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { requestText } from '../helpers/wire.js';
import { HAPROXY_OF_COMPOSE, ProxyProcess } from '../helpers/shipped-proxies.js';

const ROOT = join(__dirname, '..', '..');
const PROMETHEUS = join(ROOT, 'deploy', 'prometheus');
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

interface Dashboard {
  readonly panels: readonly { targets?: readonly { expr: string }[] }[];
}

interface AlertRules {
  readonly groups: readonly { rules: readonly { alert: string; expr: string }[] }[];
}

interface ScrapeConfiguration {
  readonly scrape_configs: readonly { job_name: string }[];
}

interface RuleTests {
  readonly tests: readonly {
    readonly input_series: readonly { series: string }[];
    readonly alert_rule_test: readonly { alertname: string; exp_alerts: readonly unknown[] }[];
  }[];
}

const dashboard = JSON.parse(read('deploy/grafana/dashboards/petstore.json')) as Dashboard;
const alerts = (load(read('deploy/prometheus/alerts.yml')) as AlertRules).groups.flatMap(({ rules }) => rules);
const { tests } = load(read('deploy/prometheus/alerts.test.yml')) as RuleTests;
const panelQueries = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
/** The section of docs/operations.md. */
const RUNBOOK = /^## Alerts\n(.*?)^## /ms.exec(read('docs/operations.md'))?.[1] ?? '';

describe('the runbook', () => {
  it('has an entry for each alert, in the same order, and no other', () => {
    const entries = RUNBOOK.matchAll(/^### (.*)$/gm);
    expect(Array.from(entries, ([, name]) => name)).toEqual(alerts.map(({ alert }) => alert));
  });
});

// Debian's package prometheus contains promtool.
describeWith('prometheus', 'promtool')('promtool', () => {
  const folder = useTemporaryFolder('dashboard');
  const promtool = (...args: string[]): string =>
    execFileSync('promtool', args, { cwd: PROMETHEUS, encoding: 'utf8', stdio: 'pipe' });

  it('accepts prometheus.yml, the rules, and every query of the dashboard', () => {
    expect(promtool('check', 'config', 'prometheus.yml')).toContain(`${alerts.length} rules found`);
    const rules = panelQueries.map((expr, index) => ({
      record: `query_${index}`,
      expr: expr.replaceAll('$__rate_interval', '1m'),
    }));
    const file = join(folder, 'rules.json');
    writeFileSync(file, JSON.stringify({ groups: [{ name: 'dashboard', rules }] }));
    expect(promtool('check', 'rules', file)).toContain(`SUCCESS: ${panelQueries.length} rules found`);
  });

  it('passes the tests of the rules, in which each alert fires at one time and does not at another', () => {
    expect(promtool('test', 'rules', 'alerts.test.yml')).toContain('SUCCESS');
    const cases = tests.flatMap(({ alert_rule_test }) => alert_rule_test);
    for (const fires of [true, false]) {
      const tested = cases.filter(({ exp_alerts }) => exp_alerts.length > 0 === fires);
      expect(new Set(tested.map(({ alertname }) => alertname))).toEqual(new Set(alerts.map(({ alert }) => alert)));
    }
  });
});

/** A metric with its matchers, which are never omitted, because each query selects the job. */
const SELECTOR = /(\w+)\{((?:[^"}]|"[^"]*")*)\}/g;
const MATCHER = /(\w+)(?:=~|!~|!=|=)"([^"]*)"/g;
/** Labels that Prometheus adds to every metric of a target. */
const TARGET_LABELS = ['job', 'instance', 'name'];

// Debian's package haproxy has the exporter, as the image of docker-compose.yml.
describeWith('haproxy')('the queries of alerts and dashboard', () => {
  // Nothing listens there: the metrics of Redis are exported without it.
  const context = useServiceProcess({ REDIS_URL: 'redis://127.0.0.1:1' });
  let proxy: ProxyProcess;
  /** What the service exports after requests of every kind, and HAProxy. */
  let exported: string;

  beforeAll(async () => {
    proxy = await ProxyProcess.start(HAPROXY_OF_COMPOSE, [1]);
    await provokeEveryResponse(context);
    const scrape = async (): Promise<boolean> => {
      const scraped = [await context.metrics(), await ServiceMetrics.scrape(proxy.metricsPort)];
      exported = scraped.map(({ text }) => text).join('\n');
      // A request is measured when its response has been sent, which can be after the client has read it.
      return exported.includes('http_route="unmatched"');
    };
    await waitFor(
      () => scrape().catch(() => false),
      () => `both export their metrics: ${proxy.output}`,
    );
  });
  afterAll(() => proxy.stop());

  const tested = new Set(tests.flatMap(({ input_series }) => input_series.map(({ series }) => series)));
  it.each([...panelQueries, ...alerts.map(({ expr }) => expr), ...tested])(
    'use only metrics, labels and values that the service or HAProxy exports: %s',
    (expression) => {
      const selectors = [...expression.matchAll(SELECTOR)].filter(([, metric]) => metric !== 'up');
      expect(expression).toMatch(SELECTOR);
      for (const [, metric = '', matchers = ''] of selectors) {
        const lines = exported
          .split('\n')
          .filter((line) => line.startsWith(`${metric}{`) || line.startsWith(`${metric} `));
        expect([metric, lines.length > 0]).toEqual([metric, true]);
        for (const [matcher, label = '', value = ''] of matchers.matchAll(MATCHER)) {
          const pattern = new RegExp(`[{,]${label}="(?:${value.replace('+', '[+]')})"`);
          const isKnown = TARGET_LABELS.includes(label) || lines.some((line) => pattern.test(line));
          expect([metric, matcher, isKnown]).toEqual([metric, matcher, true]);
        }
      }
    },
  );

  it('have petstore_limiter_store_degraded 1 while Redis is unreachable', () => {
    expect(exported).toMatch(/^petstore_limiter_store_degraded 1$/m);
  });

  it('select the jobs that prometheus.yml scrapes', () => {
    const { scrape_configs: jobs } = load(read('deploy/prometheus/prometheus.yml')) as ScrapeConfiguration;
    const selected = [...panelQueries, ...alerts.map(({ expr }) => expr)].flatMap((expression) =>
      Array.from(expression.matchAll(/\bjob="(\w+)"/g), ([, job]) => job),
    );
    expect(new Set(selected)).toEqual(new Set(jobs.map(({ job_name }) => job_name)));
  });
});

describe('a service exports, for the alerts,', () => {
  const folder = useTemporaryFolder('archive');
  const archive = join(folder, 'archive');
  let postgres: OwnPostgres;
  let service: TestService;
  beforeAll(async () => {
    const command = `test -d ${archive} && cp %p ${archive}/%f`;
    postgres = await OwnPostgres.create({ archive_mode: 'on', archive_command: command });
    service = await startTestService({ database: postgres });
  });
  afterAll(async () => {
    await service.stop();
    await postgres.drop();
  });
  const metric = async (name: string): Promise<number> => (await ServiceMetrics.of(service.app)).sum(name);

  it('that the archive of PostgreSQL fails, until it succeeds', async () => {
    expect(await metric('petstore_wal_archive_failing')).toBe(0);
    await service.db.query('SELECT pg_switch_wal()');
    const becomes = (failing: number): Promise<void> =>
      waitFor(async () => (await metric('petstore_wal_archive_failing')) === failing, `it is ${failing}`, {
        withinMs: 90_000,
      });
    await becomes(1);
    chmodSync(folder, 0o755);
    mkdirSync(archive);
    chmodSync(archive, 0o777);
    await becomes(0);
  });

  it('that it cannot write the usage', async () => {
    const { key } = await insertKey(service.db);
    await cancelOrder(service.baseUrl, '1', key);
    await service.db.query('ALTER TABLE api_key_usage RENAME TO elsewhere');
    await service.flushUsage();
    await service.db.query('ALTER TABLE elsewhere RENAME TO api_key_usage');
    expect(await metric('petstore_usage_flush_failures_total')).toBe(1);
  });
});

/** Causes every kind of response, so that the labels take their values. */
async function provokeEveryResponse({ service: { baseUrl, port }, database: { db } }: ProcessContext): Promise<void> {
  const { key } = await insertKey(db);
  const { key: spent } = await insertKey(db, { requests_per_minute: 1, requests_per_day: 1 });
  const id = await insertOrder(db);
  await listOrders(baseUrl, key).then((response) => response.text());
  await cancelOrder(baseUrl, id, key);
  await cancelOrder(baseUrl, id, key);
  await listOrders(baseUrl);
  await fetch(`${baseUrl}/health/ready`);
  for (let request = 0; request < 15; request++) {
    await cancelOrder(baseUrl, '1', spent);
  }
  // Disconnects the client of a cancel that waits for a locked order.
  const locked = await insertOrder(db);
  const release = await lockOrder(db, locked);
  const client = await RawClient.open(port, requestText('DELETE', `/v1/store/orders/${locked}`, { key }));
  await untilLockWaits(db);
  client.socket.destroy();
  await release();
  await call(baseUrl, 'GET', '/nothing-here', key);
}
