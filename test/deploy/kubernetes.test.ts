import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { loadConfig } from '../../src/config/config.js';

const ROOT = join(__dirname, '..', '..');
const FOLDER = join(ROOT, 'deploy', 'kubernetes');

interface Container {
  readonly ports?: readonly { name: string; containerPort: number }[];
  readonly env: readonly { name: string; value: string }[];
  readonly startupProbe?: { httpGet: { port: string } };
  readonly readinessProbe?: { httpGet: { port: string } };
  readonly livenessProbe?: { httpGet: { port: string } };
}

interface Workload {
  readonly metadata: { name: string };
  readonly spec: {
    selector: { matchLabels: unknown };
    template: {
      metadata: { labels: unknown };
      spec: { terminationGracePeriodSeconds: number; containers: readonly [Container] };
    };
  };
}

interface Kustomization {
  readonly configMapGenerator?: readonly { literals: readonly string[] }[];
}

const read = (...path: string[]): unknown => load(readFileSync(join(FOLDER, ...path), 'utf8'));
const deployment = read('base', 'deployment.yaml') as Workload;
const container = deployment.spec.template.spec.containers[0];

describe('the Kubernetes manifests', () => {
  it('set only variables that the service reads, with valid values', () => {
    const environment = { ...settings('base'), ...settings('example') };
    const known = readFileSync(join(ROOT, '.env.example'), 'utf8');
    for (const name of Object.keys(environment)) {
      expect(known).toMatch(new RegExp(`\\b${name}\\b`));
    }
    const values = Object.fromEntries(Object.entries(environment).filter(([name]) => !name.endsWith('_FILE')));
    const config = loadConfig({ ...values, DATABASE_URL: 'postgresql://service@database/petstore' });
    expect(config).toBeDefined();
  });

  it('give a pod more time to stop than the service takes', () => {
    const { SHUTDOWN_DELAY_SECONDS: delay, SHUTDOWN_GRACE_SECONDS: grace } = settings('base');
    expect(deployment.spec.template.spec.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(
      Number(delay) + Number(grace) + 5,
    );
  });

  it('use the ports that the service listens on by default', () => {
    const ports = Object.fromEntries((container.ports ?? []).map(({ name, containerPort }) => [name, containerPort]));
    const env = readFileSync(join(ROOT, '.env.example'), 'utf8');
    expect(ports).toEqual({
      http: Number(/^PORT=(\d+)$/m.exec(env)?.[1]),
      metrics: Number(/^METRICS_PORT=(\d+)$/m.exec(env)?.[1]),
    });
  });

  it('refer to the pods of the Deployment by their labels, and to the Deployment by its name', () => {
    const { labels } = deployment.spec.template.metadata;
    const service = read('base', 'service.yaml') as { spec: { selector: unknown } };
    const budget = read('base', 'pod-disruption-budget.yaml') as Workload;
    const policy = read('base', 'network-policy.yaml') as { spec: { podSelector: { matchLabels: unknown } } };
    const scaler = read('base', 'horizontal-pod-autoscaler.yaml') as { spec: { scaleTargetRef: { name: string } } };
    expect(deployment.spec.selector.matchLabels).toEqual(labels);
    expect(service.spec.selector).toEqual(labels);
    expect(budget.spec.selector.matchLabels).toEqual(labels);
    expect(policy.spec.podSelector.matchLabels).toEqual(labels);
    expect(scaler.spec.scaleTargetRef.name).toBe(deployment.metadata.name);
  });

  it('list every file of a folder in its kustomization', () => {
    for (const folder of ['base', 'migrate', 'monitoring', 'example', join('example', 'migrate')]) {
      const kustomization = readFileSync(join(FOLDER, folder, 'kustomization.yaml'), 'utf8');
      const files = readdirSync(join(FOLDER, folder)).filter((name) => name.endsWith('.yaml'));
      for (const file of files.filter((name) => name !== 'kustomization.yaml')) {
        expect(kustomization).toContain(file);
      }
    }
  });
});

/** The literals of a folder's ConfigMap. */
function settings(folder: string): Record<string, string> {
  const { configMapGenerator = [] } = read(folder, 'kustomization.yaml') as Kustomization;
  const literals = configMapGenerator.flatMap((map) => map.literals);
  return Object.fromEntries(literals.map((literal) => literal.split('=', 2) as [string, string]));
}
