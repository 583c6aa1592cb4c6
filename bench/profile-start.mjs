// Shows where the time goes between the start of the process and its first response:
//
//   npm run profile:start [-- FILE [ARGUMENT…]]     the production bundle by default
//
// The phases are read from the debug log, the time by package from V8's sampling profiler, which slows the start down.
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { serviceAt, startContestant } from './contestants/contestants.mjs';
import { Environment } from './environment/environment.mjs';
import { progress } from './measure/progress.mjs';
import { markdown } from './report/markdown.mjs';

const SAMPLING_MICROS = 250;
const LINES = 25;

/** The log line that ends each phase; the last one of that context counts. */
const PHASES = [
  ['Node, modules, configuration', ({ context }) => context === 'NestFactory'],
  ['dependency injection', ({ context }) => context === 'InstanceLoader'],
  ['routes, Swagger UI', ({ context }) => context === 'RouterExplorer'],
  ['warm-up: connections, statements', ({ context }) => context === 'NestApplication'],
  ['listen', ({ msg }) => msg === 'listening'],
];

const bench = new Environment();
try {
  await bench.start();
  const database = await bench.databases.forLists(1);
  const program = process.argv.slice(2);
  progress('start without the profiler');
  const phases = await phasesOf(database, program);
  progress('start under the profiler');
  const packages = await packagesOf(database, program);
  process.stdout.write(`${markdown(['phase', 'ms'], phases)}\n\n${markdown(['self time, ms', 'in'], packages)}\n`);
} finally {
  await bench.stop();
}

async function phasesOf(database, program) {
  const server = await startContestant(serviceAt(program, { LOG_LEVEL: 'debug' }), bench, database);
  await server.stop();
  const lines = server.output
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line));
  let previous = performance.timeOrigin + server.startedAt;
  const rows = PHASES.map(([name, ends]) => {
    const end = Date.parse(lines.findLast(ends).time);
    const row = [name, Math.round(end - previous)];
    previous = end;
    return row;
  });
  return [...rows, ['from spawn to the first 200', Math.round(server.startMs)]];
}

async function packagesOf(database, program) {
  const folder = join(bench.folder, 'profile');
  mkdirSync(folder);
  const nodeFlags = ['--cpu-prof', `--cpu-prof-interval=${SAMPLING_MICROS}`, `--cpu-prof-dir=${folder}`];
  const server = await startContestant(serviceAt(program), bench, database, { nodeFlags });
  await server.stop();
  const { nodes, samples, timeDeltas } = JSON.parse(readFileSync(join(folder, readdirSync(folder)[0]), 'utf8'));
  const places = new Map(nodes.map(({ id, callFrame }) => [id, placeOf(callFrame)]));
  const micros = new Map();
  let sinceStart = 0;
  samples.forEach((id, index) => {
    sinceStart += timeDeltas[index];
    if (sinceStart < server.startMs * 1_000) {
      const place = places.get(id);
      micros.set(place, (micros.get(place) ?? 0) + timeDeltas[index]);
    }
  });
  return Array.from(micros)
    .sort(([, left], [, right]) => right - left)
    .slice(0, LINES)
    .map(([place, time]) => [Math.round(time / 1_000), place]);
}

/** The package, the part of this project, or what else V8 names. */
function placeOf({ functionName, url }) {
  if (functionName === 'compileSourceTextModule' || functionName === 'wrapSafe') {
    return 'V8: parsing and compiling modules';
  }
  const [, packageName] = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url) ?? [];
  const [, chunk] = /\/(dist\/bundle\/[^/]+)/.exec(url) ?? [];
  const [, builtin] = /^(node:(?:internal\/)?[^/]+)/.exec(url) ?? [];
  return (
    packageName ??
    chunk ??
    builtin ??
    (url.startsWith('wasm:') ? 'WebAssembly' : url === '' ? functionName : 'this service')
  );
}
