import { setTimeout as delay } from 'node:timers/promises';
import { Client } from '../clients/client.mjs';
import { OWN, withContestants } from '../contestants/contestants.mjs';
import { measureLoad, warmUp } from '../measure/load.mjs';
import { progress } from '../measure/progress.mjs';
import { interleave } from '../measure/rounds.mjs';
import { poll } from './requests.mjs';

export const POLL_CONNECTIONS = 64;
const ATTEMPTS_MAX = 3;
/** The service records the first use of a key after a second; this write changes the entity tag. */
const FIRST_USE_RECORDED_MS = 1_500;

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

/** A recorded use of the key changes the entity tag; such a run is repeated with the new tag. */
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

/** The current entity tag of the list. */
export async function etagOf(server, key) {
  const response = await fetch(`http://127.0.0.1:${server.port}/v1/store/orders`, {
    method: 'HEAD',
    headers: { authorization: `Bearer ${key}` },
  });
  return response.headers.get('etag');
}
