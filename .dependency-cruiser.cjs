// The allowed arrows between the folders of src: each layer imports from itself and from lower layers only.
// docs/architecture.md describes each folder.
const LAYERS = [
  ['cli', 'cli.ts'],
  ['main.ts'],
  ['app.setup.ts', 'app.module.ts', 'all-exceptions.filter.ts'],
  ['orders', 'health'],
  ['openapi'],
  ['api-keys'],
  ['rate-limit'],
  ['usage'],
  ['http'],
  ['database', 'logging', 'tracing'],
  ['plans', 'errors', 'metrics', 'config', 'common'],
];

/** Folders of one layer that may not import each other. */
const SEPARATE_SIBLINGS = [['orders', 'health']];

/** What main.ts loads from the layer above when it is needed. */
const ON_DEMAND = '^src/cli/embedded/embedded-database\\.ts$';

/** Rules that hold whatever runs them: they import neither Nest nor Prisma nor a driver. */
const PURE_FILES = [
  'plans/plans',
  'rate-limit/(decision|headers)',
  'api-keys/key',
  'orders/order-id',
  'orders/order-columns',
  'orders/list/(gzip|list-image|list-version|order-encoder)',
  'orders/import/(order-row|read-csv)',
  'http/paths',
  'errors/domain-error',
];

const pathOf = (names) => `^src/(${names.map((name) => name.replace('.', '\\.')).join('|')})(/|$)`;

/** @type {import('dependency-cruiser').IConfiguration} */
module.exports = {
  forbidden: [
    ...LAYERS.slice(1).map((layer, index) => ({
      name: `${layer[0]}-imports-downward`,
      comment: 'Dependencies run from higher layers to lower ones.',
      severity: 'error',
      from: { path: pathOf(layer) },
      to: { path: pathOf(LAYERS.slice(0, index + 1).flat()), ...(layer[0] === 'main.ts' && { pathNot: ON_DEMAND }) },
    })),
    {
      name: 'embedded-database-on-demand',
      comment: 'Production does not have the embedded database.',
      severity: 'error',
      from: { path: '^src/main\\.ts$' },
      to: { path: ON_DEMAND, dependencyTypesNot: ['dynamic-import', 'type-only'] },
    },
    ...SEPARATE_SIBLINGS.flatMap(([one, other]) => [
      { name: `${one}-not-${other}`, severity: 'error', from: { path: pathOf([one]) }, to: { path: pathOf([other]) } },
      { name: `${other}-not-${one}`, severity: 'error', from: { path: pathOf([other]) }, to: { path: pathOf([one]) } },
    ]),
    {
      name: 'every-file-has-a-layer',
      severity: 'error',
      from: {},
      to: { path: '^src/', pathNot: pathOf(LAYERS.flat()) },
    },
    {
      name: 'pure',
      comment: 'The rules of the domain know nothing of frameworks, Prisma or drivers.',
      severity: 'error',
      from: { path: `^src/(${PURE_FILES.join('|')})\\.ts$` },
      to: { path: '(^|/)node_modules/(@nestjs|@prisma|pg|express|ioredis)/|^src/database/' },
    },
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    { name: 'src-not-test', severity: 'error', from: {}, to: { path: '^test/' } },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '^src/database/generated/' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: { conditionNames: ['import', 'types', 'node', 'default'], extensions: ['.ts', '.js'] },
  },
};
