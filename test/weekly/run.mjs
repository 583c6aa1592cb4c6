// npm run test:matrix: the service in other surroundings than those of CI: the suites of this folder, and other versions.
//   --list        prints the names
//   --only NAMES  runs only these, separated by commas
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { installOnce } from '../../.ci/install.mjs';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const JEST = join(ROOT, 'node_modules/jest/bin/jest.js');
const PLATFORM = 'linux-x64';
/** Suites that start servers of other versions themselves, beside that of Jest's global setup. */
const USE_OTHER_POSTGRES = ['point-in-time', 'postgres-13', 'public-schema'];
const IS_SUPPORTED = `${process.platform}-${process.arch}` === PLATFORM;

/** Suites that depend on the version of PostgreSQL. */
const DATABASE_SUITES = [
  ...['list/', 'cancel/', 'races/', 'import/', 'keys/', 'outages/postgres'],
  ...['migrate', 'doctor'].map((name) => `commands/${name}`),
  ...['deploy/service-role', 'models/orders'],
].map((name) => `/test/${name}`);
/** Suites that depend on the version of Node. */
const NODE_SUITES = ['pure/', 'list/', 'cancel/', 'requests/', 'commands/'].map((name) => `/test/${name}`);
/** The part of them that holds how Node writes and cuts responses, reads targets and frees memory. */
const RESPONSE_SUITES = ['pure/', 'list/(?:[23]0|interrupted)', 'requests/'].map((name) => `/test/${name}`);

/**
 * @typedef {object} Surrounding
 * @property {string} name
 * @property {string[]} suites arguments for Jest
 * @property {() => { node?: string, environment?: Record<string, string> }} [prepare]
 */

const WEEKLY_SUITES = readdirSync(HERE).filter((file) => file.endsWith('.test.ts'));

/** @type {Surrounding[]} */
const SURROUNDINGS = [
  ...WEEKLY_SUITES.map((file) => basename(file, '.test.ts')).map((name) => ({
    name,
    suites: ['--config', 'test/weekly/jest.config.js', `/${name}.test.ts`],
    ...(USE_OTHER_POSTGRES.includes(name) && IS_SUPPORTED ? { prepare: otherPostgres } : {}),
  })),
  ...[14, 15, 16, 17].map((version) => ({
    name: `postgres-${version}`,
    suites: DATABASE_SUITES,
    prepare: () => postgres(version),
  })),
  ...[20, 22, 24, 26].map((version) => ({
    name: `node-${version}`,
    suites: NODE_SUITES,
    prepare: () => nodeVersion(version),
  })),
  // The image runs 24, so every change is tried there.
  { name: 'node-24-responses', suites: RESPONSE_SUITES, prepare: () => nodeVersion(24) },
];

/**
 * @param {number} version
 * @returns {{ node: string }}
 */
function nodeVersion(version) {
  return { node: join(installed(`node-versions/node-${version}`), 'node', 'bin', 'node') };
}

/**
 * @param {number} version
 * @returns {{ environment: Record<string, string> }}
 */
function postgres(version) {
  const programs = join(installed('postgres-versions'), `postgres-${version}`, 'native');
  return { environment: { TEST_POSTGRES_PROGRAMS: programs } };
}

function otherPostgres() {
  installed('postgres-versions');
  return {};
}

/**
 * @param {string} folder
 * @returns {string} the folder of the installed packages
 */
function installed(folder) {
  installOnce(join(HERE, folder));
  return join(HERE, folder, 'node_modules');
}

/**
 * @param {Surrounding} surrounding
 * @returns {{ passed: number, failed: number, skipped: string[] }}
 */
function run({ suites, prepare }) {
  if (prepare !== undefined && !IS_SUPPORTED) {
    return { passed: 0, failed: 0, skipped: [`requires ${PLATFORM}`] };
  }
  let prepared;
  try {
    prepared = prepare?.();
  } catch (error) {
    console.error(error);
    return { passed: 0, failed: 1, skipped: [] };
  }
  const { node = process.execPath, environment = {} } = prepared ?? {};
  const folder = mkdtempSync(join(tmpdir(), 'petstore-matrix-'));
  const report = join(folder, 'report.json');
  const { status } = spawnSync(node, [JEST, ...suites, '--json', '--outputFile', report], {
    cwd: ROOT,
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, ...environment },
  });
  try {
    const { numPassedTests: passed, numFailedTests, testResults } = JSON.parse(readFileSync(report, 'utf8'));
    const skipped = testResults.flatMap(({ assertionResults }) =>
      assertionResults.filter((test) => test.status === 'todo').map((test) => test.title),
    );
    // A suite that cannot be loaded has no failed tests but counts as a failure.
    return { passed, failed: numFailedTests || Number(status !== 0), skipped };
  } catch {
    return { passed: 0, failed: 1, skipped: [] };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const { values } = parseArgs({
  options: { list: { type: 'boolean' }, only: { type: 'string' } },
});
const names = SURROUNDINGS.map(({ name }) => name);
if (values.list) {
  console.log(names.join('\n'));
  process.exit();
}
const only = values.only?.split(',');
const unknown = only?.find((name) => !names.includes(name));
if (unknown !== undefined) {
  console.error(`--only must name some of ${names.join(', ')} (got "${unknown}").`);
  process.exit(2);
}
const chosen = SURROUNDINGS.filter(({ name }) => only === undefined || only.includes(name));

let [passed, failed] = [0, 0];
const lines = [];
for (const surrounding of chosen) {
  console.log(`\n== ${surrounding.name}`);
  const started = performance.now();
  const result = run(surrounding);
  const seconds = Math.round((performance.now() - started) / 1_000);
  passed += result.passed;
  failed += result.failed;
  lines.push(`${surrounding.name.padEnd(24)} ${result.passed} passed, ${result.failed} failed, ${seconds} s`);
  lines.push(...result.skipped.map((reason) => `  SKIPPED: ${reason}`));
}
console.log(`\n${lines.join('\n')}\n\nMatrix: ${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
