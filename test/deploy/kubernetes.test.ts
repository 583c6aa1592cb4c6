import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { loadConfig } from '../../src/config/config.js';

const ROOT = join(__dirname, '..', '..');
const FOLDER = join(ROOT, 'deploy', 'kubernetes');

interface SecurityContext {
  readonly runAsNonRoot?: boolean;
  readonly runAsUser?: number;
  readonly seccompProfile?: { type: string };
  readonly sysctls?: readonly { name: string }[];
  readonly allowPrivilegeEscalation?: boolean;
  readonly privileged?: boolean;
  readonly capabilities?: { drop?: readonly string[]; add?: readonly string[] };
}

interface PodSpec {
  readonly hostNetwork?: boolean;
  readonly hostPID?: boolean;
  readonly hostIPC?: boolean;
  readonly securityContext?: SecurityContext;
  readonly volumes?: readonly Readonly<Record<string, unknown>>[];
  readonly containers: readonly { securityContext?: SecurityContext }[];
}

interface Ingress {
  readonly spec: { rules: readonly [{ http: { paths: readonly { path: string; pathType: string }[] } }] };
}

interface Container {
  readonly securityContext?: SecurityContext;
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
      spec: PodSpec & { terminationGracePeriodSeconds: number; containers: readonly [Container] };
    };
  };
}

interface Kustomization {
  readonly configMapGenerator?: readonly { literals: readonly string[] }[];
}

/** The section of docs/operations.md. */
const PAGE = /^## Kubernetes\n(.*?)^## /ms.exec(readFileSync(join(ROOT, 'docs', 'operations.md'), 'utf8'))?.[1] ?? '';

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
    const policy = read('example', 'network-policy.yaml') as { spec: { podSelector: { matchLabels: unknown } } };
    const scaler = read('base', 'horizontal-pod-autoscaler.yaml') as { spec: { scaleTargetRef: { name: string } } };
    expect(deployment.spec.selector.matchLabels).toEqual(labels);
    expect(service.spec.selector).toEqual(labels);
    expect(budget.spec.selector.matchLabels).toEqual(labels);
    expect(policy.spec.podSelector.matchLabels).toEqual(labels);
    expect(scaler.spec.scaleTargetRef.name).toBe(deployment.metadata.name);
  });

  it('route what a client needs, and not the health checks', () => {
    const { spec } = read('example', 'ingress.yaml') as Ingress;
    const [{ http }] = spec.rules;
    const isRouted = (path: string): boolean =>
      http.paths.some((each) =>
        each.pathType === 'Exact' ? path === each.path : path === each.path || path.startsWith(`${each.path}/`),
      );
    const routed = ['/', '/docs', '/docs/openapi.json', '/v1/store/orders', '/v1/store/orders/1'];
    expect([...routed, '/health/ready', '/metrics'].filter(isRouted)).toEqual(routed);
  });

  it('let the service reach PostgreSQL and Redis at the ports of the documented secrets', () => {
    const { spec } = read('example', 'network-policy.yaml') as {
      spec: { egress: readonly { ports: readonly { port: number }[] }[] };
    };
    const ports = spec.egress.flatMap((rule) => rule.ports.map(({ port }) => port));
    const urls = [...PAGE.matchAll(/(?:postgresql|rediss):[^'\s]+/g)].map(([url]) => new URL(url));
    const documented = urls.map(({ port, protocol }) => Number(port || (protocol === 'postgresql:' ? 5_432 : 6_379)));
    expect(urls.length).toBeGreaterThan(2);
    expect(ports).toEqual(expect.arrayContaining(documented));
  });

  it.each<[string, () => PodSpec]>([
    ['the Deployment', () => deployment.spec.template.spec],
    ['the migration', () => (read('migrate', 'job.yaml') as Workload).spec.template.spec],
    ['the documented pod for commands', documentedPod],
  ])('meet Pod Security `restricted`: %s', (_what, spec) => {
    expect(violationsOf(spec())).toEqual([]);
    const { containers, ...pod } = spec();
    expect(violationsOf({ containers: [{ ...containers[0], securityContext: {} }] })).not.toEqual([]);
    expect(violationsOf({ ...pod, containers, securityContext: {} })).not.toEqual([]);
  });

  it('list every file of a folder in its kustomization', () => {
    for (const folder of ['base', 'migrate', 'example', join('example', 'migrate')]) {
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

/** The pod that `kubectl run` creates, as documented. */
function documentedPod(): PodSpec {
  const [, command = ''] = /^(kubectl -n petstore run .*?'\{.*?\}')$/ms.exec(PAGE) ?? [];
  const program = `kubectl() { for word; do case $word in --overrides=*) printf %s "\${word#*=}" ;; esac; done; }\n${command}`;
  return (JSON.parse(execFileSync('sh', ['-c', program], { encoding: 'utf8' })) as { spec: PodSpec }).spec;
}

/** Sysctls that Pod Security allows since version 1.32, of those that are used here. */
const SAFE_SYSCTLS = ['net.ipv4.tcp_rmem', 'net.ipv4.tcp_wmem'];
const ALLOWED_VOLUMES = [
  'configMap',
  'csi',
  'downwardAPI',
  'emptyDir',
  'ephemeral',
  'persistentVolumeClaim',
  'projected',
  'secret',
];

/** What the profile `restricted` of the Pod Security Standards rejects in a pod. */
function violationsOf({ securityContext: pod = {}, ...spec }: PodSpec): string[] {
  const found = [
    ...(spec.hostNetwork || spec.hostPID || spec.hostIPC ? ['host namespaces'] : []),
    ...(pod.sysctls ?? []).filter(({ name }) => !SAFE_SYSCTLS.includes(name)).map(({ name }) => name),
    ...(spec.volumes ?? []).flatMap((volume) =>
      Object.keys(volume).filter((type) => type !== 'name' && !ALLOWED_VOLUMES.includes(type)),
    ),
  ];
  for (const { securityContext: own = {} } of spec.containers) {
    const { runAsNonRoot, runAsUser, seccompProfile } = { ...pod, ...own };
    const rules = {
      privileged: own.privileged !== true,
      allowPrivilegeEscalation: own.allowPrivilegeEscalation === false,
      capabilities:
        own.capabilities?.drop?.includes('ALL') === true &&
        (own.capabilities.add ?? []).every((name) => name === 'NET_BIND_SERVICE'),
      runAsNonRoot: runAsNonRoot === true,
      runAsUser: runAsUser !== 0,
      seccompProfile: ['RuntimeDefault', 'Localhost'].includes(seccompProfile?.type ?? ''),
    };
    found.push(...Object.entries(rules).flatMap(([name, isMet]) => (isMet ? [] : [name])));
  }
  return found;
}
