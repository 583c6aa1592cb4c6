import { Client } from '../clients/client.mjs';
import {
  FASTIFY_BEHIND_PROXY,
  FASTIFY_UNCOUNTED,
  OWN_BEHIND_PROXY,
  withContestants,
} from '../contestants/contestants.mjs';
import { spend } from '../contestants/server-process.mjs';
import { measureLoad, recordRun, warmUp } from '../measure/load.mjs';
import { progress } from '../measure/progress.mjs';
import { interleave } from '../measure/rounds.mjs';
import { refused, refusedFromManyAddresses } from './requests.mjs';

const REFUSAL_CONNECTIONS = 64;

/**
 * What is refused: a name for the results, the request, and the answers that are right. One address is limited after 60
 * requests a minute, so a flood of wrong keys from it is answered 429 by those who count addresses.
 */
export const REFUSALS = [
  {
    name: 'spent',
    request: ({ spent }) => refused(spent),
    expected: [429],
    contestants: [OWN_BEHIND_PROXY, FASTIFY_BEHIND_PROXY],
  },
  {
    name: 'wrongFromMany',
    request: ({ wrong }) => refusedFromManyAddresses(wrong),
    expected: [401],
    contestants: [OWN_BEHIND_PROXY, FASTIFY_BEHIND_PROXY, FASTIFY_UNCOUNTED],
  },
  {
    name: 'wrongFromOne',
    request: ({ wrong }) => refused(wrong),
    expected: [401, 429],
    contestants: [OWN_BEHIND_PROXY, FASTIFY_BEHIND_PROXY, FASTIFY_UNCOUNTED],
  },
];

export async function measureRefusals(bench, options, results) {
  const database = await bench.databases.forLists(1);
  const client = new Client('load');
  const everybody = [OWN_BEHIND_PROXY, FASTIFY_BEHIND_PROXY, FASTIFY_UNCOUNTED];
  try {
    await withContestants(
      bench,
      everybody.map((contestant) => [contestant, database]),
      async (servers) => {
        const settingOf = (contestant) => ({
          client,
          server: servers.get(contestant),
          postgresPid: bench.postgres.pid,
        });
        const specOf = (request) => ({
          connections: REFUSAL_CONNECTIONS,
          request,
          warmupSeconds: options.warmup,
          seconds: options.seconds,
        });
        for (const contestant of everybody) {
          await spend(servers.get(contestant).port, bench.keys);
          await warmUp(settingOf(contestant), specOf(refusedFromManyAddresses(bench.keys.wrong)));
        }
        for (const { name, request, expected, contestants } of REFUSALS) {
          await interleave(contestants, options.rounds, async (contestant) => {
            progress(`refusals: ${name}, ${contestant.name}`);
            await recordRun(results, `refusals/${name}`, contestant, () =>
              measureLoad(settingOf(contestant), specOf(request(bench.keys)), expected),
            );
          });
        }
      },
    );
  } finally {
    await client.stop();
  }
}
