import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { loadConfig } from '../../src/config/config.js';

const ROOT = join(__dirname, '..', '..');
const FOLDER = join(ROOT, 'deploy', 'kubernetes');

interface PodSpec {
  readonly terminationGracePeriodSeconds: number;
}

interface Workload {
  readonly spec: { readonly template: { readonly spec: PodSpec } };
}

/** The section of docs/operations.md. */
const PAGE = /^## Kubernetes\n(.*?)^## /ms.exec(readFileSync(join(ROOT, 'docs', 'operations.md'), 'utf8'))?.[1] ?? '';
const ENV_EXAMPLE = readFileSync(join(ROOT, '.env.example'), 'utf8');

// The type is that of a file of ours.
// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters
const read = <T>(path: string): T => load(readFileSync(join(FOLDER, path), 'utf8')) as T;
const pod = read<Workload>('base/deployment.yaml').spec.template.spec;

describe('the Kubernetes manifests', () => {
  it('set only variables that the service reads, with valid values', () => {
    const environment = Object.entries({ ...settings('base'), ...settings('example') });
    expect(environment.filter(([name]) => !new RegExp(`\\b${name}\\b`).test(ENV_EXAMPLE))).toEqual([]);
    const values = Object.fromEntries(environment.filter(([name]) => !name.endsWith('_FILE')));
    expect(loadConfig({ ...values, DATABASE_URL: 'postgresql://service@database/petstore' })).toMatchObject({
      publicBaseUrl: values.PUBLIC_BASE_URL,
      trustProxy: Number(values.TRUST_PROXY),
      shutdownDelaySeconds: Number(values.SHUTDOWN_DELAY_SECONDS),
      shutdownGraceSeconds: Number(values.SHUTDOWN_GRACE_SECONDS),
    });
  });

  it('give a pod more time to stop than the service takes', () => {
    const { SHUTDOWN_DELAY_SECONDS: delay, SHUTDOWN_GRACE_SECONDS: grace } = settings('base');
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(Number(delay) + Number(grace) + 5);
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
