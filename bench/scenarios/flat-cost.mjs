import { Client } from '../clients/client.mjs';
import { OWN, withContestants } from '../contestants/contestants.mjs';
import { measureLoad } from '../measure/load.mjs';
import { progress } from '../measure/progress.mjs';
import { interleave } from '../measure/rounds.mjs';
import { MAIN_CONNECTIONS } from './cancel.mjs';
import { cancels } from './requests.mjs';

const SMALL = 1_000;
/** Cancels per burst: all orders of the small table. */
const BURST = 1_000;
const BURSTS_PER_ROUND = 10;
/** Bursts until client and server run optimized code. */
const WARMUP_BURSTS = 10;

export const flatCostSizes = ({ orders }) => [SMALL, orders];

/**
 * Whether a cancel costs the same in a large table as in a small one. The small table lasts a tenth of a second, so both
 * are measured in bursts of as many cancels as the small table has orders. All orders are pending again between bursts.
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
        await interleave(tables, WARMUP_BURSTS, (table) => burst(setting(table), bench, table));
        progress('flat cost');
        // Alternating after each burst: if the machine is slow for a second, it is slow for both.
        await interleave(tables, options.rounds * BURSTS_PER_ROUND, (table) =>
          burst(setting(table), bench, table).then(
            (perSecond) => results.record(`flat/${table.orders}/perSecond`, OWN, perSecond),
            (error) => results.fail(`flat/${table.orders}/perSecond`, OWN, error.message),
          ),
        );
      },
    );
  } finally {
    await client.stop();
  }
}

async function burst(setting, bench, { orders, database }) {
  const request = { ...cancels(bench.keys.unlimited, orders), limit: BURST };
  const { perSecond } = await measureLoad(
    setting,
    { connections: MAIN_CONNECTIONS, request, warmupSeconds: 0, seconds: 10 },
    [204],
  );
  await database.resetCancelled();
  return perSecond;
}
