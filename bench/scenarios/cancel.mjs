import { Client } from '../clients/client.mjs';
import {
  available,
  FASTIFY_PG,
  GO_PGX,
  NEST_PG,
  NEST_PRISMA,
  NEST_PRISMA_CACHED_KEY,
  OWN,
  OWN_LOGGING,
  OWN_WITHOUT_DATABASE,
  withContestants,
} from '../contestants/contestants.mjs';
import { measureLoad, recordRun, warmUp } from '../measure/load.mjs';
import { progress } from '../measure/progress.mjs';
import { interleave } from '../measure/rounds.mjs';
import { cancels } from './requests.mjs';

export const CONNECTIONS = [1, 16, 64, 256];
/** The number of connections at which the additional variants are measured. */
export const MAIN_CONNECTIONS = 64;
const ALWAYS = [OWN, OWN_LOGGING, FASTIFY_PG, NEST_PG, GO_PGX, NEST_PRISMA];
const ONLY_AT_MAIN_CONNECTIONS = [OWN_WITHOUT_DATABASE, NEST_PRISMA_CACHED_KEY];

/** Each request cancels a different pending order; all orders are pending again before the next run. */
export async function measureCancels(bench, options, results) {
  const database = await bench.databases.forCancels(options.orders);
  const always = available(bench, ALWAYS);
  const all = [...always, ...ONLY_AT_MAIN_CONNECTIONS];
  const client = new Client('load');
  const specOf = (connections) => ({
    connections,
    request: cancels(bench.keys.unlimited, options.orders),
    warmupSeconds: options.warmup,
    seconds: options.seconds,
  });
  try {
    await withContestants(
      bench,
      all.map((contestant) => [contestant, database]),
      async (servers) => {
        const settingOf = (contestant) => ({
          client,
          server: servers.get(contestant),
          postgresPid: bench.postgres.pid,
        });
        for (const contestant of all) {
          await warmUp(settingOf(contestant), specOf(MAIN_CONNECTIONS));
          await database.resetCancelled();
        }
        for (const connections of CONNECTIONS) {
          const contestants = connections === MAIN_CONNECTIONS ? all : always;
          await interleave(contestants, options.rounds, async (contestant) => {
            progress(`cancel: ${connections} connections, ${contestant.name}`);
            await recordRun(results, `cancel/${connections}`, contestant, () =>
              measureLoad(settingOf(contestant), specOf(connections), [204]),
            );
            await database.resetCancelled();
          });
        }
      },
    );
  } finally {
    await client.stop();
  }
}
