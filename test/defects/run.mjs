// npm run test:defects [-- NAME…]: plants each defect of this folder in a copy of the project, and runs the suites that must find it.
// Fails when one is missed, when its text is no longer in its file, and when its suites fail without it.
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/**
 * @typedef {object} Defect
 * @property {number} promise the section of docs/reliability.md that it breaks
 * @property {string} file
 * @property {string} find the text that it replaces, once in the file
 * @property {string} replace
 * @property {string[]} suites those that must find it, below test/ and without `.test.ts`
 *
 * @typedef {object} Report Jest's, as JSON
 * @property {number} numPassedTests
 * @property {{ assertionResults: { status: string, fullName: string }[] }[]} testResults
 */

/** How long the suites of a defect may take. Milliseconds. */
const TIMEOUT_MS = 900_000;

const HERE = fileURLToPath(new URL('.', import.meta.url));
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const run = promisify(execFile);

const all = readdirSync(HERE)
  .filter((file) => file !== 'run.mjs')
  .map((file) => file.replace('.mjs', ''));
const names = process.argv.length > 2 ? process.argv.slice(2) : all;
const unknown = names.find((name) => !all.includes(name));
if (unknown !== undefined) {
  console.error(`There is no defect "${unknown}" in test/defects/.`);
  process.exit(2);
}
/** @type {Map<string, Defect>} */
const defects = new Map(await Promise.all(names.map(async (name) => [name, (await import(`./${name}.mjs`)).default])));

const folder = mkdtempSync(join(tmpdir(), 'petstore-defects-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => process.exit(1));
}

const suites = new Set([...defects.values()].flatMap((defect) => defect.suites));
const clean = await test(copy('clean'), [...suites], availableParallelism());
if (clean.failed.length > 0 || clean.passed === 0) {
  console.error(`The suites fail without a defect: ${clean.failed.join('; ') || clean.output}`);
  process.exit(1);
}
console.log(`${suites.size} suites, ${clean.passed} tests pass without a defect.`);

const waiting = [...defects];
const missed = [];
await Promise.all(
  Array.from({ length: availableParallelism() }, async (_, index) => {
    const project = copy(`copy-${index}`);
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [name, defect] = next;
      const started = performance.now();
      const result = await plant(project, defect);
      console.log(
        `${name} (promise ${defect.promise}): ${result} [${Math.round((performance.now() - started) / 1_000)} s]`,
      );
      if (!result.startsWith('found')) {
        missed.push(name);
      }
    }
  }),
);
console.log(`${defects.size - missed.length} of ${defects.size} defects found.`);
if (missed.length > 0) {
  console.log(`Missed: ${missed.join(', ')}`);
}
process.exit(missed.length === 0 ? 0 : 1);

/**
 * Plants a defect, runs its suites and takes it out again.
 * @param {string} project
 * @param {Defect} defect
 * @returns {Promise<string>} `found by …`, or why it was not
 */
async function plant(project, { file, find, replace, suites: finders }) {
  const path = join(project, file);
  const original = readFileSync(path, 'utf8');
  if (original.split(find).length !== 2) {
    return 'NO LONGER APPLIES: its text must be in the file once';
  }
  writeFileSync(
    path,
    original.replace(find, () => replace),
  );
  try {
    const { failed, output } = await test(project, finders, 1);
    return failed.length > 0 ? `found by "${failed[0]}"` : `MISSED ${output}`;
  } finally {
    writeFileSync(path, original);
  }
}

/**
 * Builds a copy and runs suites in it. A defect that does not compile, or lets no test run, counts as missed.
 * @param {string} project
 * @param {string[]} finders
 * @param {number} workers
 * @returns {Promise<{ passed: number, failed: string[], output: string }>}
 */
async function test(project, finders, workers) {
  const report = join(project, 'report.json');
  rmSync(report, { force: true });
  // With CI set, tests whose programs are missing fail instead of being skipped.
  const env = { ...process.env, CI: 'true' };
  const options = { cwd: project, env, maxBuffer: 64 * 1024 * 1024 };
  let output = '';
  try {
    await run('npm', ['run', '--silent', 'build'], options);
    const paths = finders.map((suite) => `/test/${suite}.test.ts$`);
    await run(
      process.execPath,
      [
        ...['node_modules/jest/bin/jest.js', ...paths, '--json', '--outputFile', report],
        ...['--maxWorkers', String(workers)],
        ...['--testEnvironment', join(HERE, '../helpers/first-failure-environment.mjs')],
      ],
      // A defect may leave something open that keeps Jest running.
      { ...options, timeout: TIMEOUT_MS },
    );
  } catch (error) {
    output = `(${String(error.stdout).slice(-1_000)}${String(error.stderr).slice(-1_000)})`;
  }
  /** @type {Report} */
  let result;
  try {
    result = JSON.parse(readFileSync(report, 'utf8'));
  } catch {
    return { passed: 0, failed: [], output };
  }
  const tests = result.testResults.flatMap(({ assertionResults }) => assertionResults);
  const failed = tests.filter(({ status }) => status === 'failed').map(({ fullName }) => fullName);
  return { passed: result.numPassedTests, failed, output };
}

/**
 * A copy of what Git knows, beside the packages of this one.
 * @param {string} name
 * @returns {string} its folder
 */
function copy(name) {
  const project = join(folder, name);
  mkdirSync(project);
  for (const entry of readdirSync(ROOT).filter(
    (entry) => !['node_modules', '.git', '.data', 'dist', 'coverage'].includes(entry),
  )) {
    cpSync(join(ROOT, entry), join(project, entry), { recursive: true, filter: (from, to) => !isLinked(from, to) });
  }
  symlinkSync(join(ROOT, 'node_modules'), join(project, 'node_modules'));
  return project;
}

/**
 * Links packages that a folder has for itself, such as other versions of PostgreSQL.
 * @param {string} from
 * @param {string} to
 */
function isLinked(from, to) {
  const arePackages = basename(from) === 'node_modules';
  if (arePackages) {
    symlinkSync(from, to);
  }
  return arePackages;
}
