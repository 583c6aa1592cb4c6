import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { describeWith } from '../helpers/describe-with.js';

const ROOT = join(__dirname, '..', '..');
const PROMETHEUS = join(ROOT, 'deploy', 'prometheus');

interface AlertRules {
  readonly groups: readonly { rules: readonly { alert: string; labels: { severity: string } }[] }[];
}

interface RuleTests {
  readonly tests: readonly { alert_rule_test: readonly { alertname: string; exp_alerts: readonly unknown[] }[] }[];
}

const alerts = (load(read('deploy/prometheus/alerts.yml')) as AlertRules).groups
  .flatMap(({ rules }) => rules)
  .map(({ alert }) => alert);

/** The section of docs/operations.md. */
const RUNBOOK = /^## Alerts\n(.*?)^## /ms.exec(read('docs/operations.md'))?.[1] ?? '';

it('docs/operations.md has an entry for each alert, in the same order, and no other', () => {
  const entries = RUNBOOK.matchAll(/^### (.*)$/gm);
  expect(Array.from(entries, ([, name]) => name)).toEqual(alerts);
});

it('docs/operations.md names panels that the dashboard has', () => {
  const { panels } = JSON.parse(read('deploy/grafana/dashboards/petstore.json')) as { panels: { title: string }[] };
  const named = Array.from(RUNBOOK.matchAll(/\b_([A-Z][a-zA-Z ]*)_/g), ([, title]) => title);
  expect(named.length).toBeGreaterThan(5);
  expect(panels.map(({ title }) => title)).toEqual(expect.arrayContaining(named));
});

it('alerts.test.yml tests a time at which each alert fires and one at which it does not', () => {
  const cases = (load(read('deploy/prometheus/alerts.test.yml')) as RuleTests).tests.flatMap(
    ({ alert_rule_test }) => alert_rule_test,
  );
  for (const fires of [true, false]) {
    const tested = cases.filter(({ exp_alerts }) => exp_alerts.length > 0 === fires);
    expect(new Set(tested.map(({ alertname }) => alertname))).toEqual(new Set(alerts));
  }
});

// Debian's package prometheus contains promtool.
describeWith('prometheus', 'promtool')('promtool', () => {
  it('accepts prometheus.yml and the rules', () => {
    expect(promtool('check', 'config', 'prometheus.yml')).toContain(`${alerts.length} rules found`);
  });

  it('passes the tests of the rules', () => {
    expect(promtool('test', 'rules', 'alerts.test.yml')).toContain('SUCCESS');
  });

  it('accepts every query of the dashboard', () => {
    const { panels } = JSON.parse(read('deploy/grafana/dashboards/petstore.json')) as {
      panels: readonly { targets?: readonly { expr: string }[] }[];
    };
    const expressions = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
    const rules = expressions.map((expr, index) => ({
      record: `query_${index}`,
      expr: expr.replaceAll('$__rate_interval', '1m'),
    }));
    const folder = mkdtempSync(join(tmpdir(), 'petstore-dashboard-'));
    const file = join(folder, 'rules.json');
    writeFileSync(file, JSON.stringify({ groups: [{ name: 'dashboard', rules }] }));
    const output = promtool('check', 'rules', file);
    rmSync(folder, { recursive: true });
    expect(output).toContain(`SUCCESS: ${expressions.length} rules found`);
  });

  function promtool(...args: string[]): string {
    return execFileSync('promtool', args, { cwd: PROMETHEUS, encoding: 'utf8', stdio: 'pipe' });
  }
});

function read(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}
