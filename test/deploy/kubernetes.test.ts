import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { loadConfig } from '../../src/config/config.js';

const ROOT = join(__dirname, '..', '..');
const FOLDER = join(ROOT, 'deploy', 'kubernetes');

interface Container {
  readonly ports: readonly { name: string; containerPort: number }[];
}

interface PodSpec {
  readonly terminationGracePeriodSeconds: number;
  readonly containers: readonly [Container];
}

interface Workload {
  readonly metadata: { name: string };
  readonly spec: {
    readonly selector: { matchLabels: unknown };
    readonly template: { metadata: { labels: unknown }; spec: PodSpec };
  };
}

/** The section of docs/operations.md. */
const PAGE = /^## Kubernetes\n(.*?)^## /ms.exec(readFileSync(join(ROOT, 'docs', 'operations.md'), 'utf8'))?.[1] ?? '';
const ENV_EXAMPLE = readFileSync(join(ROOT, '.env.example'), 'utf8');

// The type is that of a file of ours.
// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters
const read = <T>(path: string): T => load(readFileSync(join(FOLDER, path), 'utf8')) as T;
const deployment = read<Workload>('base/deployment.yaml');
const pod = deployment.spec.template.spec;

describe('the Kubernetes manifests', () => {
  it('set only variables that the service reads, with valid values', () => {
    const environment = Object.entries({ ...settings('base'), ...settings('example') });
    expect(environment.filter(([name]) => !new RegExp(`\\b${name}\\b`).test(ENV_EXAMPLE))).toEqual([]);
    const values = Object.fromEntries(environment.filter(([name]) => !name.endsWith('_FILE')));
    expect(loadConfig({ ...values, DATABASE_URL: 'postgresql://service@database/petstore' })).toBeDefined();
  });

  it('give a pod more time to stop than the service takes', () => {
    const { SHUTDOWN_DELAY_SECONDS: delay, SHUTDOWN_GRACE_SECONDS: grace } = settings('base');
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(Number(delay) + Number(grace) + 5);
  });

  it('use the ports that the service listens on by default', () => {
    const [PORT, METRICS_PORT] = ['PORT', 'METRICS_PORT'].map((name) =>
      Number(new RegExp(`^${name}=(\\d+)$`, 'm').exec(ENV_EXAMPLE)?.[1]),
    );
    expect(pod.containers[0].ports).toEqual([
      { name: 'http', containerPort: PORT },
      { name: 'metrics', containerPort: METRICS_PORT },
    ]);
  });

  it('refer to the pods of the Deployment by their labels, and to the Deployment by its name', () => {
    const { labels } = deployment.spec.template.metadata;
    const [service, budget, policy, scaler] = [
      read<{ spec: { selector: unknown } }>('base/service.yaml').spec.selector,
      read<Workload>('base/pod-disruption-budget.yaml').spec.selector.matchLabels,
      read<{ spec: { podSelector: { matchLabels: unknown } } }>('example/network-policy.yaml').spec.podSelector
        .matchLabels,
      read<{ spec: { scaleTargetRef: { name: string } } }>('base/horizontal-pod-autoscaler.yaml').spec.scaleTargetRef,
    ];
    expect([deployment.spec.selector.matchLabels, service, budget, policy]).toEqual(Array(4).fill(labels));
    expect(scaler.name).toBe(deployment.metadata.name);
  });

  it('route what a client needs, and not the health checks', () => {
    const { spec } = read<{
      spec: { rules: readonly [{ http: { paths: readonly { path: string; pathType: string }[] } }] };
    }>('example/ingress.yaml');
    const isRouted = (path: string): boolean =>
      spec.rules[0].http.paths.some(
        (each) => path === each.path || (each.pathType === 'Prefix' && path.startsWith(`${each.path}/`)),
      );
    const routed = ['/', '/docs', '/docs/openapi.json', '/v1/store/orders', '/v1/store/orders/1'];
    expect([...routed, '/health/ready', '/metrics'].filter(isRouted)).toEqual(routed);
  });

  it('let the service reach PostgreSQL and Redis at the ports of the documented secrets', () => {
    const { spec } = read<{ spec: { egress: readonly { ports: readonly { port: number }[] }[] } }>(
      'example/network-policy.yaml',
    );
    const ports = spec.egress.flatMap((rule) => rule.ports.map(({ port }) => port));
    const urls = [...PAGE.matchAll(/(?:postgresql|rediss):[^'\s]+/g)].map(([url]) => new URL(url));
    const documented = urls.map(({ port, protocol }) => Number(port || (protocol === 'postgresql:' ? 5_432 : 6_379)));
    expect(urls.length).toBeGreaterThan(2);
    expect(ports).toEqual(expect.arrayContaining(documented));
  });

  it.each<[string, () => PodSpec]>([
    ['the Deployment', () => pod],
    ['the migration', () => read<Workload>('migrate/job.yaml').spec.template.spec],
    ['the documented pod for commands', documentedPod],
  ])('give no variables of Services to %s, and meet Pod Security `restricted`', (_what, spec) => {
    expect(spec()).toMatchObject({
      enableServiceLinks: false,
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, runAsUser: 1_000, seccompProfile: { type: 'RuntimeDefault' } },
      containers: [{ securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } } }],
    });
  });

  it('are all listed in the kustomization of their folder', () => {
    for (const folder of ['base', 'migrate', 'example', 'example/migrate']) {
      const kustomization = readFileSync(join(FOLDER, folder, 'kustomization.yaml'), 'utf8');
      const files = readdirSync(join(FOLDER, folder)).filter((name) => name.endsWith('.yaml'));
      expect(files.filter((name) => name !== 'kustomization.yaml' && !kustomization.includes(`- ${name}\n`))).toEqual(
        [],
      );
    }
  });
});

/** The literals of a folder's ConfigMap. */
function settings(folder: string): Record<string, string> {
  const { configMapGenerator } = read<{ configMapGenerator: readonly { literals: readonly string[] }[] }>(
    `${folder}/kustomization.yaml`,
  );
  const literals = configMapGenerator.flatMap((map) => map.literals);
  return Object.fromEntries(literals.map((literal) => literal.split('=', 2) as [string, string]));
}

/** The pod that `kubectl run` creates, as documented. */
function documentedPod(): PodSpec {
  const [, command = ''] = /^(kubectl -n petstore run .*?'\{.*?\}')$/ms.exec(PAGE) ?? [];
  const program = `kubectl() { for word; do case $word in --overrides=*) printf %s "\${word#*=}" ;; esac; done; }\n${command}`;
  return (JSON.parse(execFileSync('sh', ['-c', program], { encoding: 'utf8' })) as { spec: PodSpec }).spec;
}
