import { setTimeout as delay } from 'node:timers/promises';
import { Client } from '../clients/client.mjs';
import { OWN, withContestants } from '../contestants/contestants.mjs';
import { measureLoad, warmUp } from '../measure/load.mjs';
import { progress } from '../measure/progress.mjs';
import { interleave } from '../measure/rounds.mjs';
import { poll } from './requests.mjs';

export const POLL_CONNECTIONS = 64;
const ATTEMPTS_MAX = 3;
/** The service records the first use of a key a second later, which is a write and so a new entity tag. */
const FIRST_USE_RECORDED_MS = 1_500;

export const pollSizes = ({ orders }) => [...(orders > 1_000 ? [1_000] : []), orders];

/** Conditional requests for an unchanged list. Only our service has them, so it is compared with itself. */
export async function measurePolls(bench, options, results) {
  const sizes = pollSizes(options).map((orders) => Object.freeze({ ...OWN, orders }));
  const entries = [];
  for (const entry of sizes) {
    entries.push([entry, await bench.databases.forLists(entry.orders)]);
  }
  const client = new Client('load');
  try {
    await withContestants(bench, entries, async (servers) => {
      await delay(FIRST_USE_RECORDED_MS);
      for (const server of servers.values()) {
        const request = poll(bench.keys.unlimited, await etagOf(server, bench.keys.unlimited));
        await warmUp({ client, server }, { connections: POLL_CONNECTIONS, request });
      }
      await interleave(sizes, options.rounds, async (entry) => {
        progress(`polls: ${entry.orders} orders`);
        const setting = { client, server: servers.get(entry), postgresPid: bench.postgres.pid };
        await pollUnchanged(setting, bench.keys.unlimited, options).then(
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

/** Once a minute the use of a key is recorded, and the list has a new tag: such a run is made again, with the new tag. */
async function pollUnchanged(setting, key, { warmup, seconds }) {
  for (let attempt = 1; ; attempt++) {
    try {
      const request = poll(key, await etagOf(setting.server, key));
      return await measureLoad(
        setting,
        { connections: POLL_CONNECTIONS, request, warmupSeconds: warmup, seconds },
        [304],
      );
    } catch (error) {
      if (attempt === ATTEMPTS_MAX) {
        throw error;
      }
    }
  }
}

/** The tag of the list as it is now. */
export async function etagOf(server, key) {
  const answer = await fetch(`http://127.0.0.1:${server.port}/v1/store/orders`, {
    method: 'HEAD',
    headers: { authorization: `Bearer ${key}` },
  });
  return answer.headers.get('etag');
}
