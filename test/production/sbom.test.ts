import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(__dirname, '..', '..');

interface Sbom {
  readonly components: readonly { readonly group?: string; readonly name: string }[];
}

test('the bill of materials has every dependency, and no tool of development', () => {
  const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Record<string, object>;
  const sbom = JSON.parse(execFileSync('npm', ['run', '--silent', 'sbom'], { cwd: ROOT }).toString()) as Sbom;
  const names = sbom.components.map(({ group, name }) => (group === undefined ? name : `${group}/${name}`));
  expect(names).toEqual(expect.arrayContaining(Object.keys(manifest.dependencies ?? {})));
  expect(names.filter((name) => ['eslint', 'jest', 'prisma', 'typescript'].includes(name))).toEqual([]);
});
