// Prints the software bill of materials (CycloneDX) of what runs in production: `npm run --silent sbom > sbom.json`.
// `npm sbom --omit=dev` leaves out packages that development dependencies need, too, such as pg.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8'));
const shipped = new Set(
  Object.entries(packages)
    .filter(([, { dev, devOptional }]) => dev !== true && devOptional !== true)
    .map(([path, { version }]) => `${path.replace(/^.*node_modules\//, '')}@${version}`),
);
const output = execFileSync('npm', ['sbom', '--sbom-format=cyclonedx'], { maxBuffer: 2 ** 27 });
const sbom = JSON.parse(output.toString());
const components = sbom.components.filter(({ group, name, version }) =>
  shipped.has(`${group === undefined ? '' : `${group}/`}${name}@${version}`),
);
const known = new Set([sbom.metadata.component, ...components].map((component) => component['bom-ref']));
const dependencies = sbom.dependencies
  .filter(({ ref }) => known.has(ref))
  .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((each) => known.has(each)) }));
process.stdout.write(`${JSON.stringify({ ...sbom, components, dependencies }, null, 2)}\n`);
