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

describe('docs/runbook.md', () => {
  const sections = read('docs/runbook.md').split(/^## /m).slice(1);

  it('has a section for each alert, in the same order, and no other', () => {
    expect(sections.map((section) => section.split('\n')[0])).toEqual(alerts);
  });

  it.each(sections)('gives meaning, first look and remedy for %s', (section) => {
    const [, ...items] = section.split(/^- /m);
    expect(items.map((item) => /^\*\*(.+?)\.\*\* \S/.exec(item)?.[1])).toEqual(['Meaning', 'First look', 'Remedy']);
  });
});

describe('deploy/prometheus/alerts.test.yml', () => {
  const cases = (load(read('deploy/prometheus/alerts.test.yml')) as RuleTests).tests.flatMap(
    ({ alert_rule_test }) => alert_rule_test,
  );
  const testedWith = (fires: boolean): Set<string> =>
    new Set(cases.filter(({ exp_alerts }) => exp_alerts.length > 0 === fires).map(({ alertname }) => alertname));

  it.each(alerts)('tests a time at which %s fires and one at which it does not', (alert) => {
    expect([testedWith(true).has(alert), testedWith(false).has(alert)]).toEqual([true, true]);
  });
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
