// Compares this service with others that do the same job, and with what it could be at best. See README.md.
import { cpus, loadavg, totalmem } from 'node:os';
import { writeFileSync } from 'node:fs';
import { checkSameAnswers } from './contestants/same-answers.mjs';
import { ServerProcess } from './contestants/server-process.mjs';
import { Environment, POSTGRES_SETTINGS } from './environment/environment.mjs';
import { progress } from './measure/progress.mjs';
import { Results } from './measure/results.mjs';
import { readOptions, USAGE } from './options.mjs';
import { profile } from './profile.mjs';
import { ROWS } from './report/rows.mjs';
import { markdownTable } from './report/table.mjs';
import { measureCancels } from './scenarios/cancel.mjs';
import { measureFlatCost } from './scenarios/flat-cost.mjs';
import { measureFlood } from './scenarios/flood.mjs';
import { measureLists } from './scenarios/list.mjs';
import { measurePolls } from './scenarios/polls.mjs';
import { psqlVersion } from './scenarios/psql.mjs';
import { measureRefusals } from './scenarios/refusals.mjs';
import { measureStart } from './scenarios/start.mjs';

const BUSY_LOAD = 0.5;

const MEASURES = {
  list: measureLists,
  polls: measurePolls,
  cancel: measureCancels,
  flat: measureFlatCost,
  refusals: measureRefusals,
  flood: measureFlood,
  start: measureStart,
};

let options;
try {
  options = readOptions(process.argv.slice(2));
} catch (error) {
  process.stderr.write(`${error.message}\n\n${USAGE}\n`);
  process.exit(2);
}
if (options.help) {
  process.stdout.write(`${USAGE}\n`);
  process.exit(0);
}

/** Runnable processes in the last minute, which nobody may compete with for a core. */
const [loadBefore] = loadavg();
if (loadBefore > BUSY_LOAD) {
  progress(`this machine is busy (load ${loadBefore.toFixed(1)}): the figures will not mean much`);
}
const bench = new Environment();
// A benchmark that is broken off, or breaks, leaves no server behind.
process.once('SIGINT', () => void cleanUp().then(() => process.exit(130)));
process.once('SIGTERM', () => void cleanUp().then(() => process.exit(143)));
process.once('uncaughtException', (error) => {
  console.error(error);
  void cleanUp().then(() => process.exit(1));
});
try {
  progress('starting PostgreSQL and Redis');
  await bench.start();
  if (options.profile === undefined) {
    await compare();
  } else {
    process.stdout.write(`${await profile(bench, options)}\n`);
  }
} finally {
  await cleanUp();
}

async function cleanUp() {
  await ServerProcess.stopAll();
  await bench.stop();
}

async function compare() {
  if (!options.skipCheck) {
    progress('checking that all give the same answers');
    await checkSameAnswers(bench);
  }
  const results = new Results();
  for (const name of options.only) {
    await MEASURES[name](bench, options, results);
  }
  const rows = options.only.flatMap((name) => ROWS[name](results, options));
  process.stdout.write(`${circumstances()}\n\n${markdownTable(rows)}\n`);
  if (options.json !== undefined) {
    writeFileSync(options.json, `${JSON.stringify(results, null, 2)}\n`);
  }
}

function circumstances() {
  const { rounds, seconds, warmup, orders } = options;
  const settings = Object.entries(POSTGRES_SETTINGS).map(([name, value]) => `${name}=${value}`);
  return [
    `Medians of ${rounds} rounds of ${seconds} s after ${warmup} s of warm-up; large table: ${orders} orders.`,
    `${cpus().length} cores (${cpus()[0]?.model.trim()}), ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.version}, ` +
      `client and servers on one machine; load before the run: ${loadBefore.toFixed(1)}.`,
    `PostgreSQL: ${settings.join(', ')}. Redis: nothing on disk.`,
    psqlVersion() ?? 'There is no psql here (Debian: apt install postgresql-client): the floor is not measured.',
  ].join('\n');
}
