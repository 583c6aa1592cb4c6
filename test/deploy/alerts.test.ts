import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
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

  function promtool(...args: string[]): string {
    return execFileSync('promtool', args, { cwd: PROMETHEUS, encoding: 'utf8', stdio: 'pipe' });
  }
});

function read(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}
