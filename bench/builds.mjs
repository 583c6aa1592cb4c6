// Compares builds of this service: node bench/builds.mjs NAME=PROGRAM NAME=PROGRAM [options]
//   node bench/builds.mjs before=../before/dist/bundle/main.js now=dist/bundle/main.js --rounds 7
//   node bench/builds.mjs before=… now=… --only cancel,list --seconds 1
//   node bench/builds.mjs now=dist/bundle/main.js 'small=--max-semi-space-size=4 dist/bundle/main.js'
// All run at the same time on one database and take turns. The table has the medians and their ratio to the first build.
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { serviceAt } from './contestants/contestants.mjs';
import { ServerProcess } from './contestants/server-process.mjs';
import { Environment } from './environment/environment.mjs';
import { progress } from './measure/progress.mjs';
import { interleave } from './measure/rounds.mjs';
import { median } from './measure/statistics.mjs';
import { BUILD_SCENARIOS } from './scenarios/builds.mjs';

const USAGE = `Usage: node bench/builds.mjs NAME=PROGRAM NAME=PROGRAM [--only ${Object.keys(BUILD_SCENARIOS)}] [--rounds N] [--seconds N] [--orders N]\n`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    only: { type: 'string', default: Object.keys(BUILD_SCENARIOS).join(',') },
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '2' },
    orders: { type: 'string', default: '1000000' },
  },
});
const builds = positionals.map((argument) => {
  const [name, ...rest] = argument.split('=');
  const program = rest.join('=').split(' ');
  return { name, contestant: serviceAt([...program.slice(0, -1), resolve(program.at(-1))]) };
});
const names = values.only.split(',');
if (builds.length < 2 || names.some((name) => !Object.hasOwn(BUILD_SCENARIOS, name))) {
  process.stderr.write(USAGE);
  process.exit(2);
}

const bench = new Environment();
const setting = {
  bench,
  contestants: builds.map(({ contestant }) => contestant),
  seconds: Number(values.seconds),
  orders: Number(values.orders),
  compare,
};
process.once('SIGINT', () => {
  void ServerProcess.stopAll()
    .then(() => bench.stop())
    .finally(() => process.exit(130));
});
try {
  progress('starting PostgreSQL and Redis');
  await bench.start();
  for (const name of names) {
    await BUILD_SCENARIOS[name](setting);
  }
} finally {
  await bench.stop();
}

/**
 * Measures all builds in turn and prints a line for each.
 * @param {(contestant: object) => Promise<Record<string, number>>} measure returns the figures of one round
 */
async function compare(label, measure) {
  progress(label);
  const runs = new Map(builds.map((build) => [build, []]));
  await interleave(builds, Number(values.rounds), async (build) => {
    runs.get(build).push(await measure(build.contestant));
  });
  const medians = builds.map((build) => {
    const all = runs.get(build);
    return Object.fromEntries(Object.keys(all[0]).map((figure) => [figure, median(all.map((run) => run[figure]))]));
  });
  for (const [index, { name }] of builds.entries()) {
    const cells = Object.entries(medians[index]).map(
      ([figure, value]) => `${figure} ${value.toFixed(1)} (${(value / medians[0][figure]).toFixed(2)})`,
    );
    console.log(`${label.padEnd(40)} ${name.padEnd(10)} ${cells.join('  ')}`);
  }
}
