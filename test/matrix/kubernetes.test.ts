import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { installOnce } from '../helpers/client-programs.js';
import { describeIf } from '../helpers/describe-if.js';

const FOLDER = join(__dirname, '..', '..', 'deploy', 'kubernetes');
const SCHEMAS = join(__dirname, 'kubernetes');

const { stdout: version } = spawnSync('kubectl', ['version', '--client'], { encoding: 'utf8' });

// Before version 4, kustomize has other names for folders and patches.
describeIf(/Kustomize Version: v[4-9]/.test(version), 'kubectl 1.21 or later')('the Kubernetes objects', () => {
  beforeAll(() => {
    installOnce(SCHEMAS);
  });

  it.each(['base', 'migrate', 'example', 'example/migrate'])(
    'of %s have only fields and values that the API knows',
    (folder) => {
      expect(errorsIn(build(folder))).toBe('');
    },
  );

  it('for the Prometheus operator have only fields and values that it knows', () => {
    expect(errorsIn(readFileSync(join(FOLDER, 'example', 'service-monitor.yaml'), 'utf8'))).toBe('');
  });

  it('are checked: a wrong value and an unknown field are found', () => {
    const objects = build('example');
    expect(errorsIn(objects.replace('containerPort: 3000', 'containerPort: http'))).toContain('must be integer');
    expect(errorsIn(objects.replace('readOnlyRootFilesystem', 'readOnlyFilesystem'))).toContain('known properties');
  });

  it('of the example use its images, settings and network policy', () => {
    const objects = build('example');
    const release = JSON.parse(readFileSync(join(FOLDER, '..', '..', 'package.json'), 'utf8')) as { version: string };
    expect(objects).toContain(`image: registry.example.com/petstore-orders:${release.version}\n`);
    expect(objects).toContain('PUBLIC_BASE_URL: https://api.example.com/v1');
    expect(objects).toContain('SHUTDOWN_DELAY_SECONDS: "10"');
    expect(objects).toContain('kubernetes.io/metadata.name: ingress-nginx');
  });
});

/** The objects of a kustomization, as YAML documents. */
function build(folder: string): string {
  return execFileSync('kubectl', ['kustomize', join(FOLDER, folder)], { encoding: 'utf8' });
}

function errorsIn(objects: string): string {
  const { stdout, stderr, status } = spawnSync(process.execPath, [join(SCHEMAS, 'validate.mjs')], {
    input: objects,
    encoding: 'utf8',
  });
  if (status === 0 || stdout !== '') {
    return stdout;
  }
  throw new Error(stderr);
}
