import { Client } from '../clients/client.mjs';
import { OWN, withContestants } from '../contestants/contestants.mjs';
import { measureLoad } from '../measure/load.mjs';
import { progress } from '../measure/progress.mjs';
import { interleave } from '../measure/rounds.mjs';
import { MAIN_CONNECTIONS } from './cancel.mjs';
import { cancels } from './requests.mjs';

const SMALL = 1_000;
/** Cancels in a row; a table of this size has no more. */
const BURST = 1_000;
const BURSTS_PER_ROUND = 10;
/** Bursts until client and server run compiled code. */
const WARMUP_BURSTS = 10;

export const flatCostSizes = ({ orders }) => [SMALL, orders];

/**
 * Whether a cancel costs the same in a large table as in a small one. A small table is used up in a tenth of a second, so
 * both are measured in bursts of as many cancels as the small one has orders, with all orders made pending in between.
 */
export async function measureFlatCost(bench, options, results) {
  const tables = [];
  for (const orders of new Set(flatCostSizes(options))) {
    tables.push({ ...OWN, orders, database: await bench.databases.forCancels(orders) });
  }
  const client = new Client('load');
  try {
    await withContestants(
      bench,
      tables.map((table) => [table, table.database]),
      async (servers) => {
        const setting = (table) => ({ client, server: servers.get(table), postgresPid: bench.postgres.pid });
        for (const table of tables) {
          await bursts(setting(table), bench, table, WARMUP_BURSTS);
        }
        await interleave(tables, options.rounds, async (table) => {
          progress(`flat cost: ${table.orders} orders`);
          await bursts(setting(table), bench, table, BURSTS_PER_ROUND).then(
            (perSecond) => results.record(`flat/${table.orders}/perSecond`, OWN, perSecond),
            (error) => results.fail(`flat/${table.orders}/perSecond`, OWN, error.message),
          );
        });
      },
    );
  } finally {
    await client.stop();
  }
}

async function bursts(setting, bench, { orders, database }, count) {
  const request = { ...cancels(bench.keys.unlimited, orders), limit: BURST };
  const spec = { connections: MAIN_CONNECTIONS, request, warmupSeconds: 0, seconds: 10 };
  let answers = 0;
  let seconds = 0;
  for (let burst = 0; burst < count; burst++) {
    const run = await measureLoad(setting, spec, [204]);
    answers += run.answers;
    seconds += run.seconds;
    await database.resetCancelled();
  }
  return answers / seconds;
}
