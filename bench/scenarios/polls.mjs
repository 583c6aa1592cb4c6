import { Client } from '../clients/client.mjs';
import { OWN, withContestants } from '../contestants/contestants.mjs';
import { measureLoad, warmUp } from '../measure/load.mjs';
import { progress } from '../measure/progress.mjs';
import { interleave } from '../measure/rounds.mjs';
import { etagOf, poll } from './requests.mjs';

export const POLL_CONNECTIONS = 64;

export const pollSizes = ({ orders }) => [...(orders > 1_000 ? [1_000] : []), orders];

/** Conditional requests for an unchanged list. Only this service supports them, so it is compared with itself. */
export async function measurePolls(bench, options, results) {
  const sizes = pollSizes(options).map((orders) => Object.freeze({ ...OWN, orders }));
  const entries = [];
  for (const entry of sizes) {
    entries.push([entry, await bench.databases.forLists(entry.orders)]);
  }
  const client = new Client('load');
  try {
    await withContestants(bench, entries, async (servers) => {
      for (const server of servers.values()) {
        const request = poll(bench.keys.unlimited, await etagOf(server, bench.keys.unlimited));
        await warmUp({ client, server }, { connections: POLL_CONNECTIONS, request });
      }
      await interleave(sizes, options.rounds, async (entry) => {
        progress(`polls: ${entry.orders} orders`);
        const setting = { client, server: servers.get(entry), postgresPid: bench.postgres.pid };
        const request = poll(bench.keys.unlimited, await etagOf(setting.server, bench.keys.unlimited));
        const { warmup: warmupSeconds, seconds } = options;
        await measureLoad(setting, { connections: POLL_CONNECTIONS, request, warmupSeconds, seconds }, [304]).then(
          (run) => {
            results.record(`polls/${entry.orders}/perSecond`, OWN, run.perSecond);
            results.record(`polls/${entry.orders}/serverCpuMicros`, OWN, run.serverCpuMicros);
          },
          (error) => results.fail(`polls/${entry.orders}/perSecond`, OWN, error.message),
        );
      });
    });
  } finally {
    await client.stop();
  }
}
