// Compares builds of this service by their cancels: node bench/builds.mjs NAME=PROGRAM NAME=PROGRAM [options]
//   node bench/builds.mjs before=../before/dist/bundle/main.js now=dist/bundle/main.js --connections 1,64 --rounds 7
//   node bench/builds.mjs now=dist/bundle/main.js 'small=--max-semi-space-size=4 dist/bundle/main.js'
// All run at the same time on one database and take turns. The table has the medians and their ratio to the first build.
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { Client } from './clients/client.mjs';
import { serviceAt, withContestants } from './contestants/contestants.mjs';
import { Environment } from './environment/environment.mjs';
import { measureLoad, warmUp } from './measure/load.mjs';
import { progress } from './measure/progress.mjs';
import { interleave } from './measure/rounds.mjs';
import { median } from './measure/statistics.mjs';
import { CONNECTIONS, MAIN_CONNECTIONS } from './scenarios/cancel.mjs';
import { cancels } from './scenarios/requests.mjs';

const ORDERS = 200_000;
const METRICS = ['perSecond', 'p99Ms', 'serverCpuMicros'];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    connections: { type: 'string', default: CONNECTIONS.join(',') },
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '2' },
  },
});
const builds = positionals.map((argument) => {
  const [name, ...rest] = argument.split('=');
  const program = rest.join('=').split(' ');
  return { name, contestant: serviceAt([...program.slice(0, -1), resolve(program.at(-1))]) };
});
if (builds.length < 2) {
  process.stderr.write(
    'Usage: node bench/builds.mjs NAME=PROGRAM NAME=PROGRAM [--connections LIST] [--rounds N] [--seconds N]\n',
  );
  process.exit(2);
}

const bench = new Environment();
const client = new Client('load');
try {
  progress('starting PostgreSQL and Redis');
  await bench.start();
  const database = await bench.databases.forCancels(ORDERS);
  await withContestants(
    bench,
    builds.map(({ contestant }) => [contestant, database]),
    async (servers) => {
      const run = (contestant, connections, measure) =>
        measure(
          { client, server: servers.get(contestant), postgresPid: bench.postgres.pid },
          {
            connections,
            request: cancels(bench.keys.unlimited, ORDERS),
            warmupSeconds: 0.3,
            seconds: Number(values.seconds),
          },
          [204],
        ).finally(() => database.resetCancelled());
      for (const { contestant } of builds) {
        await run(contestant, MAIN_CONNECTIONS, warmUp);
      }
      for (const connections of values.connections.split(',').map(Number)) {
        const results = new Map(builds.map((build) => [build, []]));
        await interleave(builds, Number(values.rounds), async (build) => {
          results.get(build).push(await run(build.contestant, connections, measureLoad));
        });
        const rows = builds.map((build) =>
          METRICS.map((metric) => median(results.get(build).map((run) => run[metric]))),
        );
        for (const [index, { name }] of builds.entries()) {
          const cells = METRICS.map(
            (metric, column) =>
              `${metric} ${rows[index][column].toFixed(1)} (${(rows[index][column] / rows[0][column]).toFixed(2)})`,
          );
          console.log(`${String(connections).padStart(4)}  ${name.padEnd(12)} ${cells.join('  ')}`);
        }
      }
    },
  );
} finally {
  await client.stop();
  await bench.stop();
}
