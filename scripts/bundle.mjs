// Bundles dist/ into dist/bundle/ for production: Node starts faster from a few files than from two thousand, and the image needs no
// node_modules but the files of Swagger UI (docs/decisions/0010).
import { cpSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { build } from 'esbuild';

const TARGET = 'dist/bundle';

const EXTERNAL = [
  // Read as files.
  'swagger-ui-dist',
  // Optional parts of Nest that are not installed.
  ...['@nestjs/microservices*', '@nestjs/websockets*', '@fastify/static', 'class-transformer*'],
];

rmSync(TARGET, { recursive: true, force: true });
const { metafile } = await build({
  entryPoints: ['dist/main.js', 'dist/cli.js'],
  outdir: TARGET,
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  external: EXTERNAL,
  // CommonJS packages call `require` for modules of Node.
  banner: {
    js: "import{createRequire as __createRequire}from'node:module';const require=__createRequire(import.meta.url);",
  },
  sourcemap: true,
  sourcesContent: false,
  // A tenth of the memory at rest: V8 keeps the text of what it has loaded. Identifiers stay, because logs name classes. No `keepNames`:
  // it defines a property on each closure, which costs a quarter of the cancels per second.
  minifyWhitespace: true,
  legalComments: 'none',
  metafile: true,
  logLevel: 'warning',
});
cpSync('src/openapi/browser', `${TARGET}/browser`, { recursive: true });

const folders = Object.keys(metafile.inputs).map((file) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(file)?.[0]);
const packages = [...new Set(['node_modules/swagger-ui-dist', ...folders.filter(Boolean)])].sort().map((folder) => ({
  folder,
  ...JSON.parse(readFileSync(`${folder}/package.json`, 'utf8')),
}));

// Their licences must accompany the code.
const licences = packages.map(({ folder, name, version, license }) =>
  [
    `${name} ${version} (${license ?? 'see below'})`,
    ...readdirSync(folder, { recursive: true })
      .filter((file) => /^(?:licen[cs]e|copying|notice)/i.test(file) && statSync(`${folder}/${file}`).isFile())
      .map((file) => readFileSync(`${folder}/${file}`, 'utf8').trim()),
  ].join('\n\n'),
);
writeFileSync(`${TARGET}/LICENSES.txt`, licences.join(`\n\n${'-'.repeat(80)}\n`));

// The software bill of materials (CycloneDX). `npm sbom --omit=dev` lacks packages that development packages need, too, such as pg.
const components = packages.map(({ name, version, license }) => ({
  type: 'library',
  name,
  version,
  purl: `pkg:npm/${name.replace('@', '%40')}@${version}`,
  ...(license && { licenses: [{ expression: license }] }),
}));
const { name, version } = JSON.parse(readFileSync('package.json', 'utf8'));
const sbom = {
  bomFormat: 'CycloneDX',
  specVersion: '1.5',
  version: 1,
  metadata: { component: { type: 'application', name, version } },
  components,
};
writeFileSync(`${TARGET}/sbom.json`, `${JSON.stringify(sbom, null, 2)}\n`);
