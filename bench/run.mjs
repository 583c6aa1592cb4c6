// Compares this service with other implementations and with the lower bounds of its costs. See README.md.
import { cpus, loadavg, totalmem } from 'node:os';
import { writeFileSync } from 'node:fs';
import { checkSameResponses } from './contestants/same-responses.mjs';
import { ServerProcess } from './contestants/server-process.mjs';
import { Environment, POSTGRES_SETTINGS } from './environment/environment.mjs';
import { progress } from './measure/progress.mjs';
import { Results } from './measure/results.mjs';
import { readOptions, USAGE } from './options.mjs';
import { profile } from './profile.mjs';
import { ROWS } from './report/rows.mjs';
import { markdownTable, promises } from './report/table.mjs';
import { measureCancels } from './scenarios/cancel.mjs';
import { measureFlood } from './scenarios/flood.mjs';
import { measureLists } from './scenarios/list.mjs';
import { measureListChanges } from './scenarios/list-changes.mjs';
import { measurePolls } from './scenarios/polls.mjs';
import { psqlVersion } from './scenarios/psql.mjs';
import { measureRejections } from './scenarios/rejections.mjs';
import { measureStart } from './scenarios/start.mjs';

const BUSY_LOAD = 0.5;

const MEASURES = {
  list: measureLists,
  changes: measureListChanges,
  polls: measurePolls,
  cancel: measureCancels,
  rejections: measureRejections,
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

/** The load average before the run: other processes would compete for the cores. */
const [loadBefore] = loadavg();
if (loadBefore > BUSY_LOAD) {
  progress(`the machine is busy (load ${loadBefore.toFixed(1)}): the results will not be reliable`);
}
const bench = new Environment();
// An interrupted or failed benchmark leaves no server running.
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
    progress('checking that all contestants send the same responses');
    await checkSameResponses(bench);
  }
  const results = new Results();
  for (const name of options.only) {
    await MEASURES[name](bench, options, results);
  }
  const rows = options.only.flatMap((name) => ROWS[name](results, options));
  process.stdout.write(`${[description(), markdownTable(rows), ...promises(rows)].join('\n\n')}\n`);
  if (options.json !== undefined) {
    writeFileSync(options.json, `${JSON.stringify(results, null, 2)}\n`);
  }
}

function description() {
  const { rounds, seconds, warmup, orders } = options;
  const settings = Object.entries(POSTGRES_SETTINGS).map(([name, value]) => `${name}=${value}`);
  return [
    `Medians of ${rounds} rounds of ${seconds} s after ${warmup} s of warm-up; large table: ${orders} orders.`,
    `${cpus().length} cores (${cpus()[0]?.model.trim()}), ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.version}, ` +
      `client and servers on one machine; load before the run: ${loadBefore.toFixed(1)}.`,
    `PostgreSQL: ${settings.join(', ')}. Redis: without persistence.`,
    psqlVersion() ??
      'psql is not installed (Debian: apt install postgresql-client): the lower bound of the list is not measured.',
  ].join('\n');
}
