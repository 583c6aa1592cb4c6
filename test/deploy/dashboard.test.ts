import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { load } from 'js-yaml';
import { lockOrder, untilLockWaits } from '../helpers/lock-waits.js';
import { call, cancelOrder, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { useServiceProcess } from '../helpers/service-process.js';
import type { TestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';
import { type LabelMatcher, usesOf } from './promql.js';

const DEPLOY = join(__dirname, '..', '..', 'deploy');

/** Labels that Prometheus adds to every metric of a target. */
const TARGET_LABELS = ['job', 'instance', 'name'];
/** Metrics that Prometheus records about a target. */
const TARGET_METRICS = ['up'];

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

interface RuleTests {
  readonly tests: readonly { input_series: readonly { series: string; values: string }[] }[];
}

const dashboard = JSON.parse(read('grafana/dashboards/petstore.json')) as Dashboard;
const alerts = (load(read('prometheus/alerts.yml')) as AlertRules).groups.flatMap(({ rules }) => rules);
const queries: Query[] = [
  ...dashboard.panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr }) => ({ where: `panel ${title}`, expression: expr })),
  ),
  ...alerts.map(({ alert, expr }) => ({ where: `alert ${alert}`, expression: expr })),
];

describe('the queries of the dashboard and the alerts', () => {
  // Nothing listens there: the metrics of Redis are exported without it.
  const context = useServiceProcess({ REDIS_URL: 'redis://127.0.0.1:1' });
  /** What the service exports when it has just started, and after requests of every kind. */
  let initial: Map<string, LabelSets>;
  let exported: Map<string, LabelSets>;

  beforeAll(async () => {
    const scrape = async (): Promise<Map<string, LabelSets>> => parseMetrics((await context.metrics()).text);
    initial = await scrape();
    await provokeEveryResponse(context.service.baseUrl, context.database);
    // A request is measured when its response has been sent, which can be after the client has read it.
    await waitFor(async () => {
      exported = await scrape();
      return exported.get('http_server_request_duration_seconds_count')?.values('http_route').has('unmatched') ?? false;
    }, 'the requests are measured');
  });
  it('are found', () => {
    expect(queries.length).toBeGreaterThan(30);
  });

  it.each(queries)('$where uses only metrics, labels and label values that the service exports', ({ expression }) => {
    const { selectors, groupingLabels } = usesOf(expression);
    expect(selectors).not.toEqual([]);
    for (const { metric, matchers } of selectors) {
      expect([...TARGET_METRICS, ...exported.keys()]).toContain(metric);
      for (const matcher of matchers.filter(({ label }) => !TARGET_LABELS.includes(label))) {
        expectToSelect(metric, matcher);
      }
    }
    for (const label of groupingLabels.filter((name) => !TARGET_LABELS.includes(name))) {
      const labels = selectors.flatMap(({ metric }) => [...(exported.get(metric)?.labels() ?? [])]);
      expect(labels).toContain(label);
    }
  });

  it.each(testedSeries())('alerts are tested with $series as a service exports it from its start', (tested) => {
    const { selectors } = usesOf(tested.series);
    const [{ metric, matchers } = { metric: '', matchers: [] }] = selectors;
    const labels = matchers.filter(({ label }) => !TARGET_LABELS.includes(label));
    expect(initial.get(metric)?.has(Object.fromEntries(labels.map(({ label, value }) => [label, value])))).toBe(true);
    // A counter that began with 1 would not have increased.
    expect(/_(total|count|bucket)$/.test(metric) ? tested.values : '0').toMatch(/^0/);
  });

  it('select the job that prometheus.yml and the ServiceMonitor scrape, whose port is METRICS_PORT of the service', () => {
    const config = load(read('prometheus/prometheus.yml')) as {
      scrape_configs: { job_name: string; dns_sd_configs: { names: string[]; port: number }[] }[];
    };
    const [job] = config.scrape_configs;
    expect(job?.dns_sd_configs[0]?.port).toBe(9_464);
    const jobs = queries.flatMap(({ expression }) =>
      usesOf(expression).selectors.map(({ matchers }) => matchers.find(({ label }) => label === 'job')?.value),
    );
    expect([...new Set(jobs)]).toEqual([job?.job_name]);
    const monitor = load(read('kubernetes/monitoring/service-monitor.yaml')) as {
      spec: { endpoints: { relabelings: unknown[] }[] };
    };
    expect(monitor.spec.endpoints[0]?.relabelings).toContainEqual({ targetLabel: 'job', replacement: job?.job_name });
  });

  it('use only variables that the dashboard defines', () => {
    const defined = new Set(['__rate_interval', ...dashboard.templating.list.map(({ name }) => name)]);
    const used = queries.flatMap(({ expression }) => [...expression.matchAll(/\$(\w+)/g)].map(([, name]) => name));
    expect(used.filter((name) => name === undefined || !defined.has(name))).toEqual([]);
  });

  /** An alert on a label or value that the service never exports would never fire. */
  function expectToSelect(metric: string, { label, operator, value }: LabelMatcher): void {
    const labelSets = exported.get(metric);
    expect([...(labelSets?.labels() ?? [])]).toContain(label);
    const values = [...(labelSets?.values(label) ?? [])];
    const pattern = new RegExp(`^(?:${value})$`);
    const matches = operator.includes('~') ? values.some((each) => pattern.test(each)) : values.includes(value);
    expect([label, value, matches]).toEqual([label, value, true]);
  }
});

function testedSeries(): { series: string; values: string }[] {
  const { tests } = load(read('prometheus/alerts.test.yml')) as RuleTests;
  return tests.flatMap(({ input_series }) => input_series).filter(({ series }) => !series.startsWith('up{'));
}

/** Causes every kind of response, so that the labels take their values. */
async function provokeEveryResponse(baseUrl: string, { db }: TestDatabase): Promise<void> {
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
  await abortCancel(baseUrl, db, key);
  await call(baseUrl, 'GET', '/nothing-here', key);
}

/** Disconnects the client of a cancel that waits for a locked order. */
async function abortCancel(baseUrl: string, db: TestDatabase['db'], key: string): Promise<void> {
  const id = await insertOrder(db);
  const release = await lockOrder(db, id);
  const controller = new AbortController();
  const response = fetch(`${baseUrl}/v1/store/orders/${id}`, {
    method: 'DELETE',
    headers: { Authorization: `Bearer ${key}` },
    signal: controller.signal,
  });
  await untilLockWaits(db);
  controller.abort();
  await expect(response).rejects.toThrow(/abort/);
  await release();
}

/** The label sets of an exported metric. */
class LabelSets {
  readonly #sets: Readonly<Record<string, string>>[] = [];

  add(labels: Readonly<Record<string, string>>): void {
    this.#sets.push(labels);
  }

  labels(): Set<string> {
    return new Set(this.#sets.flatMap((labels) => Object.keys(labels)));
  }

  has(labels: Readonly<Record<string, string>>): boolean {
    return this.#sets.some((set) => isDeepStrictEqual(set, labels));
  }

  values(label: string): Set<string> {
    return new Set(this.#sets.flatMap((labels) => (labels[label] === undefined ? [] : [labels[label]])));
  }
}

/** Parses the Prometheus text format: lines of `name{label="value",…} number`. */
function parseMetrics(text: string): Map<string, LabelSets> {
  const metrics = new Map<string, LabelSets>();
  for (const [, name = '', labels = ''] of text.matchAll(/^(\w+)(?:\{(.*)\})? \S+$/gm)) {
    const sets = metrics.get(name) ?? new LabelSets();
    sets.add(
      Object.fromEntries(
        [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, label = '', value = '']) => [label, value]),
      ),
    );
    metrics.set(name, sets);
  }
  return metrics;
}

function read(path: string): string {
  return readFileSync(join(DEPLOY, path), 'utf8');
}
