import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadAll } from 'js-yaml';
import ts from 'typescript';

const ROOT = join(__dirname, '..', '..');
const FOLDER = join(ROOT, 'deploy', 'kubernetes');
/** Has the types of the Kubernetes API and of the Prometheus operator. */
const TYPES = join(__dirname, 'kubernetes');

interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
}

describe('the Kubernetes manifests', () => {
  const files = readdirSync(FOLDER, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.yaml'));
  const manifests = files.filter((file) => !file.endsWith('kustomization.yaml'));

  beforeAll(() => {
    execFileSync(process.execPath, [join(ROOT, '.ci', 'install.mjs'), TYPES], { stdio: 'inherit' });
  });

  it('have only fields and values that the API and the Prometheus operator know', () => {
    expect(manifests.length).toBeGreaterThan(7);
    expect(errorsIn(manifests.map((file) => readFileSync(join(FOLDER, file), 'utf8')).join('---\n'))).toEqual([]);
  });
});

/** What TypeScript says of the objects, as literals of their types. */
function errorsIn(documents: string): string[] {
  const folder = mkdtempSync(join(TYPES, '.types-'));
  try {
    const file = join(folder, 'objects.ts');
    const source = (loadAll(documents) as KubernetesObject[]).map((object, index) => {
      const isOperator = object.apiVersion.startsWith('monitoring.coreos.com/');
      const library = isOperator ? '@kubernetes-models/prometheus-operator' : 'kubernetes-models';
      const path = `${library}/${object.apiVersion}/${object.kind}`;
      return (
        `import type { I${object.kind} as Type${index} } from '${path}';\n` +
        `export const object${index}: Type${index} = ${JSON.stringify(object, null, 1)};\n`
      );
    });
    writeFileSync(file, source.join(''));
    const program = ts.createProgram([file], {
      strict: true,
      noEmit: true,
      skipLibCheck: true,
      types: [],
      module: ts.ModuleKind.NodeNext,
      moduleResolution: ts.ModuleResolutionKind.NodeNext,
    });
    return ts
      .getPreEmitDiagnostics(program)
      .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, ' '));
  } finally {
    rmSync(folder, { recursive: true });
  }
}
