import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { lockOrder, untilLockWaits } from '../helpers/lock-waits.js';
import { HAPROXY_OF_COMPOSE, ProxyProcess } from '../helpers/shipped-proxies.js';
import { call, cancelOrder, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { describeWith } from '../helpers/describe-with.js';
import { RawClient } from '../helpers/raw-client.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { type ServiceProcess, useServiceProcess } from '../helpers/service-process.js';
import type { TestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';
import { requestText } from '../helpers/wire.js';

const DEPLOY = join(__dirname, '..', '..', 'deploy');

/** Labels that Prometheus adds to every metric of a target. */
const TARGET_LABELS = ['job', 'instance', 'name'];

/** A metric with its matchers, which are never omitted, because each query selects the job. */
const SELECTOR = /(\w+)\{((?:[^"}]|"[^"]*")*)\}/g;
const MATCHER = /(\w+)(=~|!~|!=|=)"([^"]*)"/g;
const GROUPING = /\b(?:by|on) \(([^)]*)\)/g;
const METRIC = /\b(?:up|(?:petstore|http|process|nodejs|haproxy)_\w+)\b/;

interface Query {
  readonly where: string;
  readonly expression: string;
}

interface Dashboard {
  readonly panels: readonly { title: string; targets?: readonly { expr: string }[] }[];
  readonly templating: { list: readonly { name: string; query: { query: string } }[] };
}

interface AlertRules {
  readonly groups: readonly { rules: readonly { alert: string; expr: string; annotations: { summary: string } }[] }[];
}

interface TestedSeries {
  readonly series: string;
  readonly values: string;
}

interface RuleTests {
  readonly tests: readonly { input_series: readonly TestedSeries[] }[];
}

const dashboard = JSON.parse(read('grafana/dashboards/petstore.json')) as Dashboard;
const alerts = (load(read('prometheus/alerts.yml')) as AlertRules).groups.flatMap(({ rules }) => rules);
const queries: Query[] = [
  ...dashboard.panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr }) => ({ where: `panel ${title}`, expression: expr })),
  ),
  ...alerts.map(({ alert, expr }) => ({ where: `alert ${alert}`, expression: expr })),
];

const isOfHaproxy = (text: string): boolean => text.includes('haproxy_');

describe('the queries of the dashboard and the alerts', () => {
  // Nothing listens there: the metrics of Redis are exported without it.
  const context = useServiceProcess({ REDIS_URL: 'redis://127.0.0.1:1' });
  /** What the service exports when it has just started, and after requests of every kind. */
  let initial: string;
  let exported: string;

  beforeAll(async () => {
    initial = (await context.metrics()).text;
    await provokeEveryResponse(context.service, context.database);
    // A request is measured when its response has been sent, which can be after the client has read it.
    await waitFor(async () => {
      exported = (await context.metrics()).text;
      return exported.includes('http_route="unmatched"');
    }, 'the requests are measured');
  });

  it.each(queries.filter(({ expression }) => !isOfHaproxy(expression)))(
    '$where uses only metrics, labels and label values that the service exports',
    ({ expression }) => expectExported(expression, exported),
  );

  it.each(testedSeries().filter(({ series }) => !isOfHaproxy(series) && !isOfRejections(series)))(
    'alerts are tested with $series as a service exports it from its start',
    (tested) => expectTestedFromStart(tested, initial),
  );

  // Debian's package haproxy has the exporter, as the image of docker-compose.yml.
  describeWith('haproxy')('and HAProxy', () => {
    let proxy: ProxyProcess;
    let started: string;
    beforeAll(async () => {
      proxy = await ProxyProcess.start(HAPROXY_OF_COMPOSE, [1]);
      const isExported = (): Promise<boolean> =>
        ServiceMetrics.scrape(proxy.metricsPort).then(
          ({ text }) => (started = text) !== '',
          () => false,
        );
      await waitFor(isExported, () => `HAProxy exports its metrics: ${proxy.log}`);
    });
    afterAll(() => proxy.stop());

    it.each(queries.filter(({ expression }) => isOfHaproxy(expression)))(
      '$where uses only metrics, labels and label values that the service or HAProxy exports',
      ({ expression }) => expectExported(expression, exported + started),
    );

    it.each(testedSeries().filter(({ series }) => isOfHaproxy(series)))(
      'alerts are tested with $series as HAProxy exports it from its start',
      (tested) => expectTestedFromStart(tested, started),
    );
  });

  it('select the jobs that prometheus.yml and the ServiceMonitor scrape, whose ports are those of the service and of haproxy.cfg', () => {
    const config = load(read('prometheus/prometheus.yml')) as {
      scrape_configs: { job_name: string; dns_sd_configs: { names: string[]; port: number }[] }[];
    };
    const [job, haproxy] = config.scrape_configs;
    expect(job?.dns_sd_configs[0]?.port).toBe(9_464);
    const [, bound] = /^frontend metrics\n +bind :(\d+)$/m.exec(read('proxies/haproxy.cfg')) ?? [];
    expect(haproxy?.dns_sd_configs[0]).toMatchObject({ names: ['balancer'], port: Number(bound) });
    const jobs = queries.flatMap(({ expression }) =>
      Array.from(expression.matchAll(SELECTOR), ([, , matchers = '']) => /job="(\w+)"/.exec(matchers)?.[1]),
    );
    expect(new Set(jobs)).toEqual(new Set([job?.job_name, haproxy?.job_name]));
    const monitor = load(read('kubernetes/example/service-monitor.yaml')) as {
      spec: { endpoints: { relabelings: unknown[] }[] };
    };
    expect(monitor.spec.endpoints[0]?.relabelings).toContainEqual({ targetLabel: 'job', replacement: job?.job_name });
  });

  it('use only variables that the dashboard defines', () => {
    const defined = new Set(['__rate_interval', ...dashboard.templating.list.map(({ name }) => name)]);
    const used = queries.flatMap(({ expression }) => [...expression.matchAll(/\$(\w+)/g)].map(([, name]) => name));
    expect(used.filter((name) => name === undefined || !defined.has(name))).toEqual([]);
  });
});

function expectExported(expression: string, exported: string): void {
  const selectors = Array.from(expression.matchAll(SELECTOR), ([, metric = '', matchers = '']) => ({
    lines: linesOf(exported, metric),
    matchers: metric === 'up' ? '' : matchers,
  }));
  expect(expression.replaceAll(GROUPING, '').replaceAll(SELECTOR, '')).not.toMatch(METRIC);
  for (const { lines, matchers } of selectors) {
    expect(lines).not.toEqual([]);
    for (const [matcher, label = '', , value = ''] of matchers.matchAll(MATCHER)) {
      const pattern = new RegExp(`[{,]${label}="(?:${value})"`);
      expect([matcher, TARGET_LABELS.includes(label) || lines.some((line) => pattern.test(line))]).toEqual([
        matcher,
        true,
      ]);
    }
  }
  const grouped = Array.from(expression.matchAll(GROUPING), ([, labels = '']) => labels.split(/, */)).flat();
  for (const label of grouped.filter((each) => each !== '' && !TARGET_LABELS.includes(each))) {
    const isExported = selectors.some(({ lines }) => lines.some((line) => line.includes(`${label}="`)));
    expect([label, isExported]).toEqual([label, true]);
  }
}

/** Responses that clients cause fire no alert, so their counters may begin with the first of them. */
function isOfRejections(series: string): boolean {
  return series.includes('http_response_status_code="4');
}

function expectTestedFromStart(tested: TestedSeries, initial: string): void {
  const [, metric = '', matchers = ''] = [...tested.series.matchAll(SELECTOR)][0] ?? [];
  const lines = linesOf(initial, metric).map(labelsOf);
  expect(lines).toContainEqual(
    labelsOf(matchers).filter((label) => !TARGET_LABELS.some((name) => label.startsWith(`${name}=`))),
  );
  // A counter that began with 1 would not have increased.
  expect(/_(total|count|bucket)$/.test(metric) ? tested.values : '0').toMatch(/^0/);
}

/** The lines of an export with a metric; Prometheus itself makes `up`. */
function linesOf(text: string, metric: string): string[] {
  return `up 1\n${text}`.split('\n').filter((line) => line.startsWith(`${metric}{`) || line.startsWith(`${metric} `));
}

function labelsOf(line: string): string[] {
  return (line.match(/\w+="[^"]*"/g) ?? []).sort();
}

function testedSeries(): TestedSeries[] {
  const { tests } = load(read('prometheus/alerts.test.yml')) as RuleTests;
  return tests.flatMap(({ input_series }) => input_series).filter(({ series }) => !series.startsWith('up{'));
}

/** Causes every kind of response, so that the labels take their values. */
async function provokeEveryResponse({ baseUrl, port }: ServiceProcess, { db }: TestDatabase): Promise<void> {
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
  await abortCancel(port, db, key);
  await call(baseUrl, 'GET', '/nothing-here', key);
}

/** Disconnects the client of a cancel that waits for a locked order. */
async function abortCancel(port: number, db: TestDatabase['db'], key: string): Promise<void> {
  const id = await insertOrder(db);
  const release = await lockOrder(db, id);
  const client = await RawClient.open(port, requestText('DELETE', `/v1/store/orders/${id}`, { key }));
  await untilLockWaits(db);
  client.socket.destroy();
  await release();
}

function read(path: string): string {
  return readFileSync(join(DEPLOY, path), 'utf8');
}
