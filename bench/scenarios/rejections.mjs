import { Client } from '../clients/client.mjs';
import {
  FASTIFY_BEHIND_PROXY,
  FASTIFY_UNCOUNTED,
  OWN_BEHIND_PROXY,
  withContestants,
} from '../contestants/contestants.mjs';
import { exhaustLimitedKey } from '../contestants/server-process.mjs';
import { measureLoad, recordRun, warmUp } from '../measure/load.mjs';
import { progress } from '../measure/progress.mjs';
import { interleave } from '../measure/rounds.mjs';
import { rejected, rejectedFromManyAddresses } from './requests.mjs';

const REJECTION_CONNECTIONS = 64;

/**
 * The rejected requests: a name for the results, the request, and the expected statuses. One address is limited to 60
 * requests a minute, so contestants that count addresses respond with 429 to a flood of unknown keys.
 */
export const REJECTIONS = [
  {
    name: 'limited',
    request: ({ limited }) => rejected(limited),
    expected: [429],
    contestants: [OWN_BEHIND_PROXY, FASTIFY_BEHIND_PROXY],
  },
  {
    name: 'unknownFromMany',
    request: ({ unknown }) => rejectedFromManyAddresses(unknown),
    expected: [401],
    contestants: [OWN_BEHIND_PROXY, FASTIFY_BEHIND_PROXY, FASTIFY_UNCOUNTED],
  },
  {
    name: 'unknownFromOne',
    request: ({ unknown }) => rejected(unknown),
    expected: [401, 429],
    contestants: [OWN_BEHIND_PROXY, FASTIFY_BEHIND_PROXY, FASTIFY_UNCOUNTED],
  },
];

export async function measureRejections(bench, options, results) {
  const database = await bench.databases.forLists(1);
  const client = new Client('load');
  const contestantsOfScenario = [OWN_BEHIND_PROXY, FASTIFY_BEHIND_PROXY, FASTIFY_UNCOUNTED];
  try {
    await withContestants(
      bench,
      contestantsOfScenario.map((contestant) => [contestant, database]),
      async (servers) => {
        const settingOf = (contestant) => ({
          client,
          server: servers.get(contestant),
          postgresPid: bench.postgres.pid,
        });
        const specOf = (request) => ({
          connections: REJECTION_CONNECTIONS,
          request,
          warmupSeconds: options.warmup,
          seconds: options.seconds,
        });
        for (const contestant of contestantsOfScenario) {
          await exhaustLimitedKey(servers.get(contestant).port, bench.keys);
          await warmUp(settingOf(contestant), specOf(rejectedFromManyAddresses(bench.keys.unknown)));
        }
        for (const { name, request, expected, contestants } of REJECTIONS) {
          await interleave(contestants, options.rounds, async (contestant) => {
            progress(`rejections: ${name}, ${contestant.name}`);
            await recordRun(results, `rejections/${name}`, contestant, () =>
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
