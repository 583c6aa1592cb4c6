// Validates Kubernetes objects, YAML documents on stdin, against the schemas of their API versions: values by the schemas,
// unknown fields, which the schemas allow, by their types. Prints the errors and exits with 1 if there is any.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { loadAll } from 'js-yaml';
import ts from 'typescript';

const HERE = fileURLToPath(new URL('.', import.meta.url));

const objects = loadAll(await text(process.stdin));
const errors = [...(await errorsInValues()), ...errorsInTypes()];
if (errors.length > 0) {
  console.log(errors.join('\n'));
  process.exitCode = 1;
}

function moduleOf({ apiVersion, kind }) {
  const isOperator = apiVersion.startsWith('monitoring.coreos.com/');
  return `${isOperator ? '@kubernetes-models/prometheus-operator' : 'kubernetes-models'}/${apiVersion}/${kind}`;
}

async function errorsInValues() {
  const found = [];
  for (const object of objects) {
    try {
      const { [object.kind]: Model } = await import(moduleOf(object));
      new Model(object).validate();
    } catch (error) {
      found.push(`${object.kind}/${object.metadata?.name}: ${error.message}`);
    }
  }
  return found;
}

/** TypeScript rejects unknown properties of an object literal. */
function errorsInTypes() {
  const folder = mkdtempSync(join(HERE, '.types-'));
  try {
    const file = join(folder, 'objects.ts');
    const source = objects.map(
      (object, index) =>
        `import type { I${object.kind} as Type${index} } from '${moduleOf(object)}';\n` +
        `export const object${index}: Type${index} = ${JSON.stringify(object, null, 1)};\n`,
    );
    writeFileSync(file, source.join('\n'));
    const program = ts.createProgram([file], {
      strict: true,
      noEmit: true,
      skipLibCheck: true,
      types: [],
      module: ts.ModuleKind.NodeNext,
      moduleResolution: ts.ModuleResolutionKind.NodeNext,
    });
    return ts.getPreEmitDiagnostics(program).map(({ messageText, start = 0 }) => {
      const context = source.join('\n').slice(0, start).trimEnd().split('\n').at(-1)?.trim() ?? '';
      return `after ${context}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`;
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
