// What `run.mjs` and `builds.mjs` share: options, servers, rounds and the table.
import { cpus, loadavg, totalmem } from 'node:os';
import { parseArgs } from 'node:util';
import { Environment, POSTGRES_SETTINGS } from './environment/environment.mjs';
import { progress } from './progress.mjs';
import { cancel } from './scenarios/cancel.mjs';
import { changes } from './scenarios/changes.mjs';
import { list } from './scenarios/list.mjs';
import { memory } from './scenarios/memory.mjs';
import { rejections } from './scenarios/rejections.mjs';
import { start } from './scenarios/start.mjs';
import { checkSameResponses } from './servers/same-responses.mjs';
import { Server } from './servers/server.mjs';

const SCENARIOS = { cancel, rejections, list, changes, memory, start };
const OPTIONS = {
  only: { type: 'string', default: Object.keys(SCENARIOS).join() },
  rounds: { type: 'string', default: '5' },
  seconds: { type: 'string', default: '2' },
  orders: { type: 'string', default: '1000000' },
};

/** @throws {Error} that names an invalid option */
export function readOptions() {
  const { values, positionals } = parseArgs({ options: OPTIONS, allowPositionals: true });
  const only = values.only.split(',');
  const numbers = Object.fromEntries(['rounds', 'seconds', 'orders'].map((name) => [name, Number(values[name])]));
  if (only.some((name) => !(name in SCENARIOS)) || !Object.values(numbers).every((number) => number > 0)) {
    throw new Error(`Options: --only ${Object.keys(SCENARIOS).join()} --rounds N --seconds N --orders N`);
  }
  return { only, positionals, ...numbers };
}

/**
 * Compares contestants and prints the medians, each with its ratio to that of the first one.
 * @param {(folder: string) => import('./servers/contestants.mjs').Contestant[]} contestantsIn may build programs in the folder
 */
export async function compareAll({ only, rounds, seconds, orders }, contestantsIn) {
  const bench = new Environment();
  const stop = async () => {
    await Server.stopAll();
    await bench.stop();
  };
  process.once('SIGINT', () => void stop().finally(() => process.exit(130)));
  try {
    progress(`starting PostgreSQL and Redis; load of the machine: ${loadavg()[0].toFixed(1)}`);
    await bench.start();
    const contestants = contestantsIn(bench.folder);
    progress('checking that all contestants send the same responses');
    await checkSameResponses(bench, contestants);
    console.log(`${description()}\n\n| measured | | median (ratio to the first) |\n| --- | --- | --- |`);
    for (const name of only) {
      const taking = contestants.filter(({ scenarios = only }) => scenarios.includes(name));
      await SCENARIOS[name]({ bench, contestants: taking, seconds, orders, compare });
    }
  } finally {
    await stop();
  }

  /** Measures all contestants once in each round, starting with a different one, so that changes on the machine affect all of them. */
  async function compare(label, contestants, measure) {
    progress(label);
    const runs = new Map(contestants.map((contestant) => [contestant, []]));
    for (let turn = 0; turn < rounds * contestants.length; turn++) {
      const contestant = contestants[(turn + Math.floor(turn / contestants.length)) % contestants.length];
      runs.get(contestant).push(await measure(contestant));
    }
    const medians = contestants.map((contestant) => mediansOf(runs.get(contestant)));
    for (const [index, { name }] of contestants.entries()) {
      const figures = Object.entries(medians[index]).map(
        ([figure, value]) => `${figure} ${Number(value.toPrecision(4))} (${ratio(value, medians[0][figure])})`,
      );
      console.log(`| ${label} | ${name} | ${figures.join(', ')} |`);
    }
  }
}

function ratio(value, first) {
  return first === undefined ? '-' : (value / first).toFixed(3);
}

function mediansOf(runs) {
  return Object.fromEntries(
    Object.keys(runs[0]).map((figure) => [figure, median(runs.map((values) => values[figure]))]),
  );
}

function median(values) {
  const sorted = Float64Array.from(values).sort();
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

function description() {
  const settings = Object.entries(POSTGRES_SETTINGS).map(([name, value]) => `${name}=${value}`);
  const memoryGiB = Math.round(totalmem() / 2 ** 30);
  return `${cpus().length} cores (${cpus()[0]?.model.trim()}), ${memoryGiB} GiB, Node ${process.version}. PostgreSQL: ${settings.join(', ')}.`;
}
