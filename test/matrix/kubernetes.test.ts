import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { installOnce } from '../helpers/client-programs.js';
import { describeIf } from '../helpers/describe-if.js';

const FOLDER = join(__dirname, '..', '..', 'deploy', 'kubernetes');
const SCHEMAS = join(__dirname, 'kubernetes');

const hasKubectl = spawnSync('kubectl', ['version', '--client']).status === 0;

describeIf(hasKubectl, 'kubectl (Debian: apt install kubernetes-client)')('the Kubernetes objects', () => {
  beforeAll(() => {
    installOnce(SCHEMAS);
  });

  it.each(['base', 'migrate', 'monitoring', 'example', 'example/migrate'])(
    'of %s have only fields and values that the API knows',
    (folder) => {
      expect(errorsIn(build(folder))).toBe('');
    },
  );

  it('are checked: a wrong value and an unknown field are found', () => {
    const objects = build('example');
    expect(errorsIn(objects.replace('containerPort: 3000', 'containerPort: http'))).toContain('must be integer');
    expect(errorsIn(objects.replace('readOnlyRootFilesystem', 'readOnlyFilesystem'))).toContain('known properties');
  });

  it('of the example use its images, settings and narrower network policy', () => {
    const objects = build('example');
    expect(objects).toContain('image: registry.example.com/petstore-orders:1.0.0');
    expect(objects).toContain('PUBLIC_BASE_URL: https://api.example.com/v1');
    expect(objects).toContain('SHUTDOWN_DELAY_SECONDS: "10"');
    expect(objects).toContain('kubernetes.io/metadata.name: ingress-nginx');
  });
});

/** The objects of a kustomization, as YAML documents. */
function build(folder: string): string {
  const copy = mkdtempSync(join(tmpdir(), 'petstore-kubernetes-'));
  try {
    cpSync(FOLDER, copy, { recursive: true });
    if (!/Kustomize Version: v[4-9]/.test(execFileSync('kubectl', ['version', '--client'], { encoding: 'utf8' }))) {
      useOldNames(copy);
    }
    return execFileSync('kubectl', ['kustomize', join(copy, folder)], { encoding: 'utf8' });
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

/** Debian's kubectl 1.20 has kustomize 2.0, in which folders are `bases` and patches `patchesStrategicMerge`. */
function useOldNames(folder: string): void {
  for (const entry of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (entry.endsWith('kustomization.yaml')) {
      const file = join(folder, entry);
      const text = readFileSync(file, 'utf8');
      const folders = text.match(/^ {2}- (?:\.\.\/)+\w+$/gm) ?? [];
      writeFileSync(
        file,
        folders
          .reduce((rest, line) => rest.replace(`${line}\n`, ''), text)
          .replace(/^resources:\n(?! )/m, '')
          .replace(/^patches:\n {2}- path: (.*)$/m, 'patchesStrategicMerge:\n  - $1')
          .concat(folders.length > 0 ? `bases:\n${folders.join('\n')}\n` : ''),
      );
    }
  }
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
